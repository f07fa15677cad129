// Values of rows as people read them.
import type { DataColumn, Value } from "./api";

export function shown(value: Value, column?: DataColumn): string {
  if (value === null || value === undefined) return "null";
  if (typeof value === "number") return numeric(value, column);
  if (typeof value === "boolean") return String(value);
  if (typeof value === "string") return column?.kind === "time" ? value.replace("T", " ").replace(/(\.\d*?)0+$/, "$1") : value;
  if (Array.isArray(value)) {
    const head = value.slice(0, 4).map((each) => shown(each)).join(", ");
    return `[${head}${value.length > 4 ? `, … ${value.length} in all` : ""}]`;
  }
  return `{${Object.entries(value).slice(0, 6).map(([name, each]) => `${name}: ${shown(each)}`).join(", ")}}`;
}

function numeric(value: number, column?: DataColumn): string {
  if (column?.kind === "integer" || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(5);
  return String(Number(value.toPrecision(column?.type === "float" ? 7 : 11)));
}

export const isNumeric = (column: DataColumn): boolean => column.kind === "number" || column.kind === "integer";

// A value as a number to draw; NaN where it is none. Times are seconds since 1970.
export function asNumber(value: Value): number {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  if (typeof value !== "string") return NaN;
  const plain = Number(value);
  return Number.isNaN(plain) && value !== "NaN" ? Date.parse(value.endsWith("Z") || value.includes("+") ? value : `${value}Z`) / 1000 : plain;
}
