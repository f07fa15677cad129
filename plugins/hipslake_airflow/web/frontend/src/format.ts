// Numbers, times and angles as people read them.
const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
const AGES: [string, number][] = [
  ["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60],
];

export const count = (value: number | null | undefined): string => (value == null ? "–" : COUNT.format(value));
export const short = (value: number): string => (Math.abs(value) < 10 ? String(+value.toPrecision(2)) : SHORT.format(value));

export function bytes(value: number | null | undefined): string {
  if (value == null) return "–";
  let at = 0;
  let size = Math.abs(value);
  while (size >= 1024 && at < UNITS.length - 1) {
    size /= 1024;
    at++;
  }
  const digits = at === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${UNITS[at]}`;
}

export function signed(value: number | null | undefined, text: (value: number) => string): string {
  if (value == null) return "–";
  return value > 0 ? `+${text(value)}` : value < 0 ? `−${text(-value)}` : "0";
}

export function plural(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

export function age(time: string | null | undefined): string {
  if (!time) return "–";
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  for (const [unit, length] of AGES) {
    if (seconds >= length) return `${plural(Math.floor(seconds / length), unit)} ago`;
  }
  return "just now";
}

export function moment(time: string | null | undefined): string {
  return time ? `${time.slice(0, 10)} ${time.slice(11, 16)} UTC` : "–";
}

export function seconds(value: number): string {
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(value / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(value % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Right ascension in hours, as 05h 34m 31.9s.
export function hours(ra: number): string {
  const tenths = Math.round((ra / 15) * 36_000) % 864_000;
  const [h, m, s] = [Math.floor(tenths / 36_000), Math.floor(tenths / 600) % 60, (tenths % 600) / 10];
  return `${pad(h)}h ${pad(m)}m ${s.toFixed(1).padStart(4, "0")}s`;
}

// Declination, as +22° 00′ 52″.
export function arc(dec: number): string {
  const total = Math.round(Math.abs(dec) * 3600);
  const [d, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  return `${dec < 0 ? "−" : "+"}${pad(d)}° ${pad(m)}′ ${pad(s)}″`;
}

export function degrees(value: number, digits = 4): string {
  return `${value < 0 ? "−" : ""}${Math.abs(value).toFixed(digits)}°`;
}

const pad = (value: number): string => String(value).padStart(2, "0");
