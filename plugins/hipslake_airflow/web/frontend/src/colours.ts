// From a quantity to colours: viridis on a logarithmic scale, and colours told apart at sight for orders.
import type { Cells, Quantity } from "./cells";

const VIRIDIS = (
  "440154 481567 482677 453781 404788 39568c 33638d 2d708e 287d8e 238a8d " +
  "1f968b 20a387 29af7f 3cbb75 55c667 73d055 95d840 b8de29 dce319 fde725"
).split(" ").map(channels);
// Neighbouring orders differ in hue and in lightness, also for colour-blind eyes.
const ORDERS = "332288 88ccee 117733 ddcc77 cc6677 44aa99 882255 999933 aa4499 6699cc".split(" ");
const STEPS = 48;

export interface ColourScale {
  colours: string[]; // of the bins
  bin: (value: number) => number;
  ticks: { at: number; value: number }[]; // places in [0, 1] along a bar
  labels: string[] | null; // of the bins, where they are discrete
}

export function scaleOf(quantity: Quantity, blocks: Cells[]): ColourScale {
  return quantity === "order" ? discrete(blocks) : logarithmic(quantity, blocks);
}

function discrete(blocks: Cells[]): ColourScale {
  const found = new Set<number>();
  for (const cells of blocks) for (const order of cells.columns.finest) found.add(order);
  const orders = [...found].sort((one, other) => one - other);
  const bins = new Map(orders.map((order, at) => [order, at]));
  return {
    colours: orders.map((order) => `#${ORDERS[order % ORDERS.length]}`),
    bin: (order) => bins.get(order) ?? 0,
    ticks: [],
    labels: orders.map(String),
  };
}

function logarithmic(quantity: Quantity, blocks: Cells[]): ColourScale {
  let [least, most] = [Infinity, -Infinity];
  for (const cells of blocks) {
    for (let at = 0; at < cells.length; at++) {
      const value = cells.value(quantity, at);
      if (value > 0) [least, most] = [Math.min(least, value), Math.max(most, value)];
    }
  }
  return logarithmicScale(least, most, STEPS);
}

// Colours of values between two.
export function logarithmicScale(least: number, most: number, steps: number): ColourScale {
  if (!(least <= most)) [least, most] = [1, 1];
  if (most < least * 1.01) [least, most] = [least / 1.5, most * 1.5];
  const [low, high] = [Math.log10(least), Math.log10(most)];
  const share = (value: number): number => (Math.log10(Math.max(value, least)) - low) / (high - low);
  return {
    colours: Array.from({ length: steps }, (_, at) => viridis(at / (steps - 1))),
    bin: (value) => Math.min(steps - 1, Math.floor(share(value) * steps)),
    ticks: ticks(low, high).map((value) => ({ at: share(value), value })),
    labels: null,
  };
}

// Round values between two powers of ten: decades, or 1, 2, 5 where there are few.
function ticks(low: number, high: number): number[] {
  const wide = high - low;
  const steps = wide > 5 ? [1] : wide > 1.2 ? [1, 3] : [1, 1.5, 2, 3, 4, 5, 7];
  const every = wide > 9 ? 2 : 1;
  const found: number[] = [];
  for (let decade = Math.floor(low); decade <= high; decade += every) {
    for (const step of steps) {
      const value = step * 10 ** decade;
      const at = Math.log10(value);
      if (at >= low - 1e-9 && at <= high + 1e-9) found.push(value);
    }
  }
  return found.length ? found : [10 ** low, 10 ** high];
}

export function viridis(share: number): string {
  const at = Math.min(VIRIDIS.length - 2, Math.floor(share * (VIRIDIS.length - 1)));
  const between = share * (VIRIDIS.length - 1) - at;
  const mixed = VIRIDIS[at].map((low, channel) => Math.round(low + between * (VIRIDIS[at + 1][channel] - low)));
  return `rgb(${mixed.join(",")})`;
}

// Colours between two, for as many bins.
export function ramp([low, high]: readonly [string, string], length: number): string[] {
  const [from, to] = [channels(low.slice(1)), channels(high.slice(1))];
  return Array.from({ length }, (_, at) => {
    const share = length > 1 ? at / (length - 1) : 0.5;
    return `rgb(${from.map((value, channel) => Math.round(value + share * (to[channel] - value))).join(",")})`;
  });
}

// Red, green, blue of a colour as this module writes it.
export function rgb(colour: string): [number, number, number] {
  if (colour.startsWith("#")) return channels(colour.slice(1));
  return colour.match(/\d+/g)!.slice(0, 3).map(Number) as [number, number, number];
}

function channels(hex: string): [number, number, number] {
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)) as [number, number, number];
}
