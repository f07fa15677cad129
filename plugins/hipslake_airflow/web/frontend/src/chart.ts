// Drawings of numbers: histograms and points over axes.
import { tickIncrement, ticks } from "d3-array";
import { svg } from "./dom";

export interface Axis {
  least: number;
  most: number;
  title: string;
  turned?: boolean; // the smaller the higher, as magnitudes are drawn
  text?: (value: number) => string;
}

export interface Series {
  name: string;
  colour: string;
  points: { x: number; y: number; error?: number; title: string }[];
}

const [LEFT, RIGHT, TOP, BOTTOM] = [58, 12, 10, 38];
export const SERIES = ["#2f7fd6", "#e4572e", "#2a9d6f", "#9b5de5", "#c99700", "#d6336c", "#4aa8a8", "#7a7f87"];

export function histogram(edges: number[], counts: number[], title: string, text: (value: number) => string): SVGElement {
  const [width, height] = [440, 180];
  const most = Math.max(1, ...counts);
  const x = scaled({ least: edges[0], most: edges[edges.length - 1], title }, LEFT, width - RIGHT);
  const y = scaled({ least: 0, most, title: "rows" }, height - BOTTOM, TOP);
  const drawing = frame(width, height, `Histogram of ${title}`);
  axes(drawing, width, height, { least: edges[0], most: edges[edges.length - 1], title, text }, { least: 0, most, title: "rows" });
  counts.forEach((count, at) => {
    const [left, right] = [x(edges[at]), x(edges[at + 1])];
    const bar = svg("rect", {
      class: "bar", x: left + 0.5, y: y(count), width: Math.max(0.5, right - left - 1), height: Math.max(0, height - BOTTOM - y(count)),
    }, svg("title", {}, `${text(edges[at])} to ${text(edges[at + 1])}: ${count.toLocaleString("en")} rows`));
    drawing.append(bar);
  });
  return drawing;
}

export function scatter(series: Series[], across: Axis, up: Axis, label: string): SVGElement {
  const [width, height] = [560, 280];
  const drawing = frame(width, height, label);
  const x = scaled(across, LEFT, width - RIGHT);
  const y = scaled(up, height - BOTTOM, TOP);
  axes(drawing, width, height, across, up);
  for (const { points, colour } of series) {
    const group = svg("g", { fill: colour, stroke: colour });
    for (const { x: at, y: value, error, title } of points) {
      if (error) group.append(svg("line", { x1: x(at), x2: x(at), y1: y(value - error), y2: y(value + error), "stroke-opacity": 0.45 }));
      group.append(svg("circle", { cx: x(at), cy: y(value), r: 2.6, "stroke-width": 0 }, svg("title", {}, title)));
    }
    drawing.append(group);
  }
  return drawing;
}

// A range with some room at both ends.
export function roomy(values: number[]): [number, number] {
  const known = values.filter(Number.isFinite);
  if (!known.length) return [0, 1];
  const [least, most] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const room = (most - least || Math.abs(most) || 1) * 0.05;
  return [least - room, most + room];
}

function frame(width: number, height: number, label: string): SVGElement {
  return svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

function scaled({ least, most, turned }: Axis, from: number, to: number): (value: number) => number {
  const [first, last] = turned ? [most, least] : [least, most];
  return (value) => from + ((value - first) / (last - first || 1)) * (to - from);
}

function axes(drawing: SVGElement, width: number, height: number, across: Axis, up: Axis): void {
  const x = scaled(across, LEFT, width - RIGHT);
  const y = scaled(up, height - BOTTOM, TOP);
  for (const value of ticks(up.least, up.most, 5)) {
    drawing.append(svg("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, (up.text ?? plain(up))(value)));
  }
  for (const value of ticks(across.least, across.most, 6)) {
    drawing.append(svg("line", { class: "tick", x1: x(value), x2: x(value), y1: height - BOTTOM, y2: height - BOTTOM + 4 }),
      svg("text", { x: x(value), y: height - BOTTOM + 16, "text-anchor": "middle" }, (across.text ?? plain(across))(value)));
  }
  drawing.append(svg("line", { class: "tick", x1: LEFT, x2: width - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM }),
    svg("text", { class: "title", x: (LEFT + width - RIGHT) / 2, y: height - 6, "text-anchor": "middle" }, across.title),
    svg("text", { class: "title", transform: `translate(13 ${(TOP + height - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, up.title));
}

// A tick's value with the digits that tell it from the next.
function plain({ least, most }: Axis): (value: number) => string {
  const step = tickIncrement(least, most, 6);
  const apart = step > 0 ? step : -1 / step;
  const digits = Math.max(0, Math.min(8, Math.ceil(-Math.log10(apart || 1) - 1e-9)));
  return (value) => (Math.abs(value) >= 1e7 ? value.toExponential(2) : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
}
