// Cells of the sky as they come from the server, and where to find them.
import { FINEST, pixelArea, pixelAt } from "./healpix";

export interface Totals {
  partitions: number;
  files: number;
  rows: number;
  bytes: number;
}

export interface CellColumns {
  totals: Totals;
  order: number[];
  npix: number[];
  rows: number[];
  bytes: number[];
  partitions: number[];
  files: number[];
  finest: number[];
  filled: number[];
}

export type Quantity = "rows" | "bytes" | "density" | "order";

// Disjoint cells along the curve.
export class Cells {
  readonly length: number;
  private readonly start: Float64Array; // first order-20 pixel: exact as a float

  constructor(readonly columns: CellColumns) {
    this.length = columns.order.length;
    this.start = Float64Array.from(columns.order, (order, at) => columns.npix[at] * 4 ** (FINEST - order));
  }

  // The cell that holds a position, or -1.
  find(ra: number, dec: number): number {
    return this.findPixel(FINEST, pixelAt(FINEST, ra, dec));
  }

  // The cell that holds a pixel, or -1.
  findPixel(order: number, npix: number): number {
    const wanted = npix * 4 ** (FINEST - order);
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] <= wanted) low = middle + 1;
      else high = middle;
    }
    const at = low - 1;
    return at >= 0 && wanted < this.start[at] + 4 ** (FINEST - this.columns.order[at]) ? at : -1;
  }

  value(quantity: Quantity, at: number): number {
    const { rows, bytes, partitions, finest, order, filled } = this.columns;
    switch (quantity) {
      case "rows":
        return rows[at] / partitions[at];
      case "bytes":
        return bytes[at] / partitions[at];
      case "density":
        return rows[at] / (pixelArea(order[at]) * filled[at]);
      case "order":
        return finest[at];
    }
  }

  // Whether the cell stands for several partitions.
  isGathered(at: number): boolean {
    return this.columns.partitions[at] > 1;
  }
}
