// The map: cells on a canvas, zoomed and dragged by an affine transform; hover and choice on a second canvas.
import { geoPath } from "d3-geo";
import { select } from "d3-selection";
import { zoom, zoomIdentity, ZoomTransform, type ZoomBehavior } from "d3-zoom";
import { Cells, type Quantity } from "./cells";
import { logarithmicScale, ramp, rgb, scaleOf, type ColourScale } from "./colours";
import type { Density, Raster } from "./density";
import { FRAMES } from "./frames";
import { gridOf, type Grid, type View } from "./graticule";
import { centre, FINEST, pixelAt } from "./healpix";
import { CENTRES, galacticPlane, PROJECTIONS, SCALE, type Rotation } from "./projections";
import { Plane, type Shapes } from "./shapes";

export interface Palette {
  background: string;
  empty: string;
  hatch: string;
  outline: string;
  grid: string;
  gridUnder: string;
  gridText: string;
  gridHalo: string;
  border: string;
  mark: string;
  plane: string;
  planeUnder: string;
  partition: string; // borders of partitions over the image of the density
  partitionUnder: string;
  muted: readonly [string, string]; // of the map below overlays, from few to many
  point: string;
  region: string;
  match: string;
}

export interface Overlay {
  cells: Cells;
  colour: string;
  filled: boolean;
  dashed?: boolean;
}

// Rows that are drawn one by one.
export interface Points {
  ra: ArrayLike<number>;
  dec: ArrayLike<number>;
  radius: ArrayLike<number>; // pixels
  colour: ArrayLike<number>; // index into colours
  colours: string[];
}

export interface Pick {
  ra: number;
  dec: number;
  cells: Cells | null;
  at: number; // -1: empty sky
  point: number; // of those drawn, the one below the pointer; -1 if none is
}

type TileSource = (order: number, npix: number) => Promise<Cells>;

interface Block {
  cells: Cells;
  gathered: number; // the order of its cells that stand for several partitions; -1 if none does
  shapes: Shapes | null; // worked out when it is drawn first
  bins: Uint8Array | null;
}

interface Tile {
  order: number;
  npix: number;
  block: Block;
}

// A picture of the density, under the transform that it was made for.
interface Picture {
  canvas: HTMLCanvasElement;
  transform: ZoomTransform;
  shrunk: number;
}

interface Built {
  transform: ZoomTransform; // the paths are in its pixels
  fills: Path2D[]; // one per colour
  borders: Path2D;
  overlays: Path2D[];
  left: number; // what is in the paths, in units of the plane
  top: number;
  right: number;
  bottom: number;
}

const MARGIN = 26; // pixels around the sky
const SEAM = 0.35; // pixels by which cells are widened, so that nothing shines through between them
const BORDER_FROM = 15; // pixels that cells of an order are wide before they get borders
const TILE_FROM = 40; // pixels that a gathered cell is wide before what is in it is asked for
const TILE_UP = 2; // orders that a tile is above the cells it replaces
const MOST_TILES = 48;
const SETTLE = 90; // milliseconds
const ZOOM_MOST = 2_000_000;
const IMAGE_COLOURS = 192;
const SLOW = 200; // milliseconds that a picture may take before it is made of fewer pixels
const NEAR = 9; // pixels from a point within which the pointer is on it

export class SkyMap {
  onHover: (pick: Pick | null) => void = () => {};
  onChoose: (pick: Pick | null) => void = () => {};
  onScale: (scale: ColourScale) => void = () => {};
  onRest: () => void = () => {}; // the map has come to rest

  private readonly ground: HTMLCanvasElement;
  private readonly front: HTMLCanvasElement;
  private readonly zoomer: ZoomBehavior<HTMLCanvasElement, unknown>;
  private plane = new Plane(PROJECTIONS.mollweide, CENTRES.ra0.rotation);
  private base: Block | null = null;
  private tiles = new Map<string, Tile>();
  private asked = new Set<string>();
  private tileSource: TileSource | null = null;
  private overlays: { overlay: Overlay; shapes: Shapes | null }[] = [];
  private quantity: Quantity = "rows";
  private scale: ColourScale | null = null;
  private palette: Palette;
  private transform = zoomIdentity;
  private built: Built | null = null;
  private grid: { made: Grid; lines: Path2D; transform: ZoomTransform } | null = null;
  private moving = false;
  private hatch: CanvasPattern | null = null;
  private width = 0;
  private height = 0;
  private fit = 1; // pixels per unit of the plane at no zoom
  private frame = 0;
  private settling = 0;
  private hovered: Pick | null = null;
  private chosen: Pick | null = null;
  private pointer: [number, number] | null = null;
  private drawnSky: { outline: Path2D; galactic: Path2D } | null = null;
  private generation = 0;
  private density: Density | null = null;
  private paintsImage = false;
  private bordersShown = true;
  private muted = false;
  private gridFrame = "equatorial";
  private wholePicture: Picture | null = null;
  private picture: Picture | null = null;
  private raster: Raster | null = null;
  private points: { given: Points; placed: Float64Array } | null = null;
  private begin: [number, number, number] | null = null;
  private scratch: HTMLCanvasElement | null = null;
  private marked = -1; // the point that is chosen
  private segments: [number, number][][] = []; // lines between matches
  private outlines: [number, number][][] = []; // of regions

  constructor(private readonly host: HTMLElement, palette: Palette) {
    this.palette = palette;
    this.ground = canvas("ground");
    this.front = canvas("front");
    this.front.tabIndex = 0;
    this.front.setAttribute("role", "application");
    host.append(this.ground, this.front);
    this.zoomer = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, ZOOM_MOST])
      .on("start", () => (this.moving = true))
      .on("zoom", (event: { transform: ZoomTransform }) => this.moved(event.transform))
      .on("end", () => this.settleSoon());
    select(this.front).call(this.zoomer).on("dblclick.zoom", null);
    this.front.addEventListener("pointermove", (event) => this.pointed(event));
    this.front.addEventListener("pointerleave", () => this.hover(null));
    this.front.addEventListener("click", (event) => this.choose(this.pickAt(event.offsetX, event.offsetY)));
    this.front.addEventListener("dblclick", (event) => this.zoomAt(event.offsetX, event.offsetY));
    this.front.addEventListener("keydown", (event) => this.key(event));
    this.front.addEventListener("focus", () => this.drawFront());
    this.front.addEventListener("blur", () => this.drawFront());
    new ResizeObserver(() => this.resized()).observe(host);
    this.resized();
  }

  // Where the pointer is, in pixels of the map.
  get pointedAt(): [number, number] | null {
    return this.pointer;
  }

  get element(): HTMLCanvasElement {
    return this.front;
  }

  show(cells: Cells, quantity: Quantity, tiles: TileSource | null): void {
    this.generation++;
    this.base = blockOf(cells);
    this.tiles.clear();
    this.asked.clear();
    this.tileSource = tiles;
    this.quantity = quantity;
    this.hovered = this.chosen = null;
    this.recolour();
  }

  colourBy(quantity: Quantity): void {
    this.quantity = quantity;
    this.recolour();
  }

  // Lays cells over the map, which may be grey below them.
  lay(overlays: Overlay[], muted = false): void {
    this.overlays = overlays.map((overlay) => ({ overlay, shapes: null }));
    const before = this.isMuted;
    this.muted = muted;
    if (before !== this.isMuted) this.repaint();
    this.rebuild();
  }

  // The density of rows below the cells; whether it is what is seen, or the cells' own colours are.
  showDensity(density: Density | null, painted: boolean): void {
    if (this.density !== density) {
      if (this.density) this.density.onTile = () => {};
      this.density = density;
      if (density) density.onTile = () => this.repaintSoon();
    }
    this.paintsImage = painted && density !== null;
    this.wholePicture = this.picture = this.raster = null;
    if (this.paintsImage) this.paintImage();
    else this.recolour();
    this.rebuild();
    this.onRest();
  }

  showBorders(shown: boolean): void {
    this.bordersShown = shown;
    this.rebuild();
  }

  showGrid(frame: string): void {
    this.gridFrame = frame;
    this.grid = null;
    this.draw();
  }

  showPoints(points: Points | null): void {
    const before = this.isMuted;
    this.points = points && { given: points, placed: this.placed(points) };
    this.marked = -1;
    if (before !== this.isMuted) this.repaint();
    this.draw();
  }

  markPoint(at: number): void {
    this.marked = at;
    this.drawFront();
  }

  // Lines between positions, such as those of matches.
  showSegments(segments: [number, number][][]): void {
    this.segments = segments;
    this.draw();
  }

  // Outlines of regions, as rings of positions.
  showOutlines(outlines: [number, number][][]): void {
    this.outlines = outlines;
    this.draw();
  }

  // About how many rows are in sight; null where that is not known.
  get rowsInSight(): number | null {
    return this.raster && this.raster.rows;
  }

  // Degrees from edge to edge of the map, in the middle.
  get fieldOfView(): [number, number] {
    const perDegree = this.pixelsPerRadian * (Math.PI / 180);
    return [this.width / perDegree, this.height / perDegree];
  }

  // Positions at the corners of the map; null if one is off the sky.
  corners(): [number, number][] | null {
    const [right, bottom] = [this.width, this.height];
    const found = ([[0, 0], [right, 0], [right, bottom], [0, bottom]] as const).map(([x, y]) => this.plane.position(...this.toPlane(x, y)));
    return found.every((each) => each !== null) ? (found as [number, number][]) : null;
  }

  // What is in the middle, and how far it is zoomed in.
  get looksAt(): { ra: number; dec: number; zoom: number } | null {
    const found = this.plane.position(...this.toPlane(this.width / 2, this.height / 2));
    return found && { ra: found[0], dec: found[1], zoom: this.transform.k };
  }

  private get pixelsPerRadian(): number {
    return SCALE * this.fit * this.transform.k;
  }

  project(projection: string, centre: string): void {
    this.plane = new Plane(PROJECTIONS[projection], CENTRES[centre].rotation);
    for (const block of this.blocks()) block.shapes = null;
    for (const each of this.overlays) each.shapes = null;
    if (this.points) this.points.placed = this.placed(this.points.given);
    this.drawnSky = this.grid = this.wholePicture = this.picture = null;
    this.fitSky();
    select(this.front).call(this.zoomer.transform, zoomIdentity);
    this.paintImage();
    this.rebuild();
  }

  dress(palette: Palette): void {
    this.palette = palette;
    this.hatch = null;
    if (this.isMuted) this.repaint();
    this.draw();
  }

  // In by a double click, at the pointer.
  private zoomAt(x: number, y: number): void {
    select(this.front).call(this.zoomer.scaleBy, 2.5, [x, y]);
  }

  reset(): void {
    select(this.front).call(this.zoomer.transform, zoomIdentity);
  }

  zoomBy(factor: number): void {
    const point = this.chosen ? this.screen(this.chosen.ra, this.chosen.dec) : null;
    select(this.front).call(this.zoomer.scaleBy, factor, point && this.isOnScreen(point) ? point : undefined);
  }

  // Brings a position into the middle.
  lookAt(ra: number, dec: number, scale: number): void {
    const placed = this.plane.place(ra, dec);
    if (!placed) return;
    const k = Math.min(ZOOM_MOST, Math.max(1, scale));
    const [x, y] = this.unzoomed(placed[0], placed[1]);
    const there = new ZoomTransform(k, this.width / 2 - k * x, this.height / 2 - k * y);
    select(this.front).call(this.zoomer.transform, there);
  }

  // Where the map begins, as soon as it has a size.
  startAt(ra: number, dec: number, scale: number): void {
    if (this.width) this.lookAt(ra, dec, scale);
    else this.begin = [ra, dec, scale];
  }

  // Where a position stands on the screen; null if it does not.
  screen(ra: number, dec: number): [number, number] | null {
    const placed = this.plane.place(ra, dec);
    return placed && this.transform.apply(this.unzoomed(placed[0], placed[1]));
  }

  pickAt(x: number, y: number): Pick | null {
    const found = this.plane.position(...this.toPlane(x, y));
    return found && { ...this.pick(found[0], found[1]), point: this.pointAt(x, y) };
  }

  pick(ra: number, dec: number): Pick {
    const cells = this.finest(ra, dec);
    return { ra, dec, cells, at: cells ? cells.find(ra, dec) : -1, point: -1 };
  }

  // The density at a position, as finely as it is shown.
  densityAt(ra: number, dec: number): ReturnType<Density["at"]> {
    return this.density && this.density.at(ra, dec, this.density.orderFor(this.pixelsPerRadian));
  }

  private pointAt(x: number, y: number): number {
    if (!this.points) return -1;
    const { placed } = this.points;
    let [nearest, best] = [NEAR * NEAR, -1];
    const [originX, originY] = this.transform.apply(this.unzoomed(0, 0));
    const zoomed = this.fit * this.transform.k;
    for (let at = 0; 2 * at < placed.length; at++) {
      const [right, down] = [placed[2 * at] * zoomed + originX - x, placed[2 * at + 1] * zoomed + originY - y];
      const far = right * right + down * down;
      if (far < nearest) [nearest, best] = [far, at];
    }
    return best;
  }

  private placed({ ra, dec }: Points): Float64Array {
    const placed = new Float64Array(2 * ra.length);
    for (let at = 0; at < ra.length; at++) {
      const [x, y] = this.plane.place(ra[at], dec[at]) ?? [NaN, NaN];
      placed[2 * at] = x;
      placed[2 * at + 1] = y;
    }
    return placed;
  }

  // The cells on another plane than the one that is shown.
  shapesUnder(projection: string, rotation: Rotation): Shapes {
    return new Plane(PROJECTIONS[projection], rotation).shapesOf(this.base!.cells);
  }

  // Chooses the next cell along the curve, or the one before.
  step(by: number): void {
    const cells = this.chosen?.cells ?? this.base?.cells;
    if (!cells?.length) return;
    const from = this.chosen && this.chosen.at >= 0 ? this.chosen.at : by > 0 ? -1 : cells.length;
    this.chooseCell(cells, (from + by + cells.length) % cells.length);
  }

  private chooseCell(cells: Cells, at: number): void {
    const { order, npix } = cells.columns;
    const [ra, dec] = centre(order[at], npix[at]);
    this.choose({ ra, dec, cells, at, point: -1 });
  }

  private choose(pick: Pick | null): void {
    this.chosen = pick;
    if (pick && pick.at >= 0) {
      const point = this.screen(pick.ra, pick.dec);
      if (!point || !this.isOnScreen(point)) this.lookAt(pick.ra, pick.dec, this.transform.k);
    }
    this.drawFront();
    this.onChoose(pick);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = 80;
    const arrows: Record<string, [number, number]> = {
      ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1],
    };
    if (event.key in arrows) {
      const [right, down] = arrows[event.key];
      if (event.shiftKey) this.chooseBeside(-right, -down);
      else select(this.front).call(this.zoomer.translateBy, (right * far) / this.transform.k, (down * far) / this.transform.k);
    } else if (event.key === "+" || event.key === "=") this.zoomBy(1.6);
    else if (event.key === "-" || event.key === "_") this.zoomBy(1 / 1.6);
    else if (event.key === "0") this.reset();
    else if (event.key === "Enter" || event.key === " ") this.choose(this.pickAt(this.width / 2, this.height / 2));
    else if (event.key === "n") this.step(1);
    else if (event.key === "p") this.step(-1);
    else if (event.key === "Escape") this.choose(null);
    else return;
    event.preventDefault();
  }

  // The next cell in a direction of the screen, from the chosen one or from the middle.
  private chooseBeside(right: number, down: number): void {
    const here = this.chosen && this.screen(this.chosen.ra, this.chosen.dec);
    if (!this.chosen || !here) {
      this.choose(this.pickAt(this.width / 2, this.height / 2));
      return;
    }
    const reach = 2 * Math.max(this.width, this.height);
    for (let far = 2; far < reach; far += Math.max(2, far / 40)) {
      const pick = this.pickAt(here[0] + right * far, here[1] + down * far);
      if (!pick || pick.at < 0 || !pick.cells) continue;
      if (pick.cells !== this.chosen.cells || pick.at !== this.chosen.at) {
        this.chooseCell(pick.cells, pick.at);
        return;
      }
    }
  }

  private pointed(event: PointerEvent): void {
    if (event.buttons) return;
    this.hover([event.offsetX, event.offsetY]);
  }

  private hover(point: [number, number] | null): void {
    this.pointer = point;
    this.hovered = point && this.pickAt(point[0], point[1]);
    this.drawFront();
    this.onHover(this.hovered);
  }

  private moved(transform: ZoomTransform): void {
    this.transform = transform;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private settleSoon(): void {
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.settle(), SETTLE);
  }

  // Paths are made anew where they are too coarse by now, or end within sight.
  private settle(): void {
    this.moving = false;
    this.askForTiles();
    this.paintImage();
    if (!this.built || this.isStale(this.built)) this.rebuild();
    else this.draw();
    if (this.pointer) this.hover(this.pointer); // something else is below it by now
    this.onRest();
  }

  private repainting = 0;
  private slowness = 0; // milliseconds that a pixel of the last picture took

  private repaintSoon(): void {
    if (this.repainting) return;
    this.repainting = window.setTimeout(() => {
      this.repainting = 0;
      if (this.moving) return this.repaintSoon();
      this.picture = null;
      this.paintImage();
      this.draw();
      this.onRest();
    }, Math.min(400, Math.max(60, this.slowness * this.width * this.height)));
  }

  // Makes the picture of the density for where the map is by now.
  private paintImage(): void {
    if (!this.paintsImage || !this.density || !this.width) return;
    const there = this.picture?.transform;
    if (there && there.k === this.transform.k && there.x === this.transform.x && there.y === this.transform.y) return;
    const began = performance.now();
    const shrunk = this.slowness * this.width * this.height > SLOW ? 2 : 1;
    this.raster = this.density.raster(this.plane, this.shrunkView(this.transform, shrunk), this.pixelsPerRadian / shrunk);
    this.slowness = (performance.now() - began) / (this.raster.width * this.raster.height);
    this.scale = logarithmicScale(this.raster.least, this.raster.most, IMAGE_COLOURS);
    this.picture = { canvas: this.painted(this.raster, this.scale), transform: this.transform, shrunk };
    this.onScale(this.scale);
    if (this.transform.k === 1) this.wholePicture = this.picture;
    else this.wholePicture ??= this.paintWhole();
  }

  // All of the sky, at half its size: what shows at the edges while the map is moved.
  private paintWhole(): Picture {
    const shrunk = 2;
    const view = this.shrunkView(zoomIdentity, shrunk);
    const raster = this.density!.raster(this.plane, view, (SCALE * this.fit) / shrunk);
    const scale = logarithmicScale(raster.least, raster.most, IMAGE_COLOURS);
    return { canvas: this.painted(raster, scale), transform: zoomIdentity, shrunk };
  }

  // What is seen under a transform, with fewer pixels.
  private shrunkView(transform: ZoomTransform, shrunk: number): View {
    return {
      width: this.width / shrunk,
      height: this.height / shrunk,
      toScreen: (x, y) => transform.apply(this.unzoomed(x, y)).map((part) => part / shrunk) as [number, number],
      toPlane: (x, y) => {
        const [px, py] = transform.invert([shrunk * x, shrunk * y]);
        return [(px - this.width / 2) / this.fit, (py - this.height / 2) / this.fit];
      },
    };
  }

  private painted({ width, height, values }: Raster, scale: ColourScale): HTMLCanvasElement {
    const made = canvas("picture");
    [made.width, made.height] = [Math.ceil(width), Math.ceil(height)];
    const pen = made.getContext("2d")!;
    const image = pen.createImageData(made.width, made.height);
    const dots = new Uint32Array(image.data.buffer);
    const colours = Uint32Array.from(this.coloursOf(scale), (colour) => {
      const [red, green, blue] = rgb(colour);
      return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    });
    for (let at = 0; at < values.length; at++) if (values[at] > 0) dots[at] = colours[scale.bin(values[at])];
    pen.putImageData(image, 0, 0);
    return made;
  }

  // Whether the map is grey, so that what lies over it is seen.
  get isMuted(): boolean {
    return this.muted || this.points !== null;
  }

  private repaint(): void {
    this.wholePicture = this.picture = null;
    this.paintImage();
    if (this.scale) this.onScale(this.scale);
  }

  private coloursOf(scale: ColourScale): string[] {
    return this.isMuted ? ramp(this.palette.muted, scale.colours.length) : scale.colours;
  }

  private isStale(built: Built): boolean {
    const ratio = this.transform.k / built.transform.k;
    if (ratio > 1.7 || ratio < 0.59) return true;
    const { left, top, right, bottom } = this.inSight(0);
    return left < built.left || top < built.top || right > built.right || bottom > built.bottom;
  }

  private *blocks(): Iterable<Block> {
    if (this.base) yield this.base;
    for (const tile of this.tiles.values()) yield tile.block;
  }

  private recolour(): void {
    if (!this.base) return;
    if (!this.paintsImage) {
      const all = [...this.blocks()];
      this.scale = scaleOf(this.quantity, all.map((block) => block.cells));
      for (const block of all) block.bins = null;
      this.onScale(this.scale);
    }
    this.rebuild();
  }

  // The tile that stands in place of a cell; "" for a cell above all tiles.
  private tileOver(block: Block, at: number): string {
    const { order, npix } = block.cells.columns;
    const up = order[at] - (block.gathered - TILE_UP);
    return block.gathered < TILE_UP || up < 0 ? "" : tileKey(block.gathered, Math.floor(npix[at] / 4 ** up));
  }

  private finest(ra: number, dec: number): Cells | null {
    let found = this.base?.cells ?? null;
    let best = -1;
    const pixel = pixelAt(FINEST, ra, dec);
    for (const tile of this.tiles.values()) {
      if (tile.order > best && Math.floor(pixel / 4 ** (FINEST - tile.order)) === tile.npix) {
        [found, best] = [tile.block.cells, tile.order];
      }
    }
    return found;
  }

  // Asks for what gathered cells hold that are large on the screen.
  private askForTiles(): void {
    if (!this.tileSource || !this.base) return;
    const wanted = new Map<string, [number, number]>();
    const sight = this.inSight(0);
    for (const block of this.blocks()) {
      const { cells, shapes, gathered } = block;
      if (!shapes || gathered < TILE_UP || gathered >= FINEST) continue;
      for (let at = 0; at < cells.length; at++) {
        if (!cells.isGathered(at) || !meets(shapes.box, at, sight)) continue;
        const wide = (shapes.box[4 * at + 2] - shapes.box[4 * at]) * this.fit * this.transform.k;
        const key = this.tileOver(block, at);
        if (wide < TILE_FROM || this.tiles.has(key) || this.asked.has(key)) continue;
        wanted.set(key, [gathered, Math.floor(cells.columns.npix[at] / 4 ** TILE_UP)]);
        if (wanted.size > MOST_TILES) return; // too much at once: further in it will be less
      }
    }
    for (const [gathered, npix] of wanted.values()) void this.fetchTile(gathered, npix);
  }

  private async fetchTile(gathered: number, npix: number): Promise<void> {
    const { generation, tileSource } = this;
    const key = tileKey(gathered, npix);
    this.asked.add(key);
    try {
      const cells = await tileSource!(gathered - TILE_UP, npix);
      if (generation !== this.generation || !cells.length) return;
      this.tiles.set(key, { order: gathered - TILE_UP, npix, block: blockOf(cells) });
      for (const old of this.tiles.keys()) {
        if (this.tiles.size <= 4 * MOST_TILES) break;
        this.tiles.delete(old);
        this.asked.delete(old);
      }
      this.rebuildSoon();
    } catch {
      this.asked.delete(key);
    }
  }

  private rebuilding = 0;

  private rebuildSoon(): void {
    clearTimeout(this.rebuilding);
    this.rebuilding = window.setTimeout(() => {
      this.recolour();
      this.askForTiles();
    }, 30);
  }

  // What is seen, and so much of it again on each side, in units of the plane.
  private inSight(more: number): { left: number; top: number; right: number; bottom: number } {
    const [left, top] = this.toPlane(-more * this.width, -more * this.height);
    const [right, bottom] = this.toPlane((1 + more) * this.width, (1 + more) * this.height);
    return { left, top, right, bottom };
  }

  private rebuild(): void {
    if (!this.scale || !this.width) {
      this.draw();
      return;
    }
    const region = this.inSight(1);
    const transform = this.transform;
    const zoomed = this.fit * transform.k;
    const [originX, originY] = transform.apply(this.unzoomed(0, 0));
    const fills = this.paintsImage ? [] : this.scale.colours.map(() => new Path2D());
    const borders = new Path2D();
    const bordered = borderedOrders(zoomed);
    for (const block of this.blocks()) {
      block.shapes ??= this.plane.shapesOf(block.cells);
      if (!this.paintsImage) block.bins ??= this.binsOf(block.cells);
      for (let at = 0; at < block.cells.length; at++) {
        if (!meets(block.shapes.box, at, region)) continue;
        if (this.tiles.size && this.tiles.has(this.tileOver(block, at))) continue;
        if (!this.paintsImage) trace(fills[block.bins![at]], block.shapes, at, zoomed, originX, originY, SEAM);
        if (this.bordersShown && block.cells.columns.order[at] <= bordered) trace(borders, block.shapes, at, zoomed, originX, originY, 0);
      }
    }
    const overlays = this.overlays.map((each) => {
      const path = new Path2D();
      each.shapes ??= this.plane.shapesOf(each.overlay.cells);
      for (let at = 0; at < each.overlay.cells.length; at++) {
        if (meets(each.shapes.box, at, region)) trace(path, each.shapes, at, zoomed, originX, originY, SEAM);
      }
      return path;
    });
    this.built = { transform, fills, borders, overlays, ...region };
    this.draw();
  }

  private binsOf(cells: Cells): Uint8Array {
    const { bin } = this.scale!;
    return Uint8Array.from({ length: cells.length }, (_, at) => bin(cells.value(this.quantity, at)));
  }

  private resized(): void {
    const { clientWidth, clientHeight } = this.host;
    if (!clientWidth || !clientHeight) return;
    this.width = clientWidth;
    this.height = clientHeight;
    for (const each of [this.ground, this.front]) {
      each.width = Math.round(clientWidth * ratio());
      each.height = Math.round(clientHeight * ratio());
      each.style.width = `${clientWidth}px`;
      each.style.height = `${clientHeight}px`;
    }
    this.zoomer.extent([[0, 0], [clientWidth, clientHeight]]);
    this.hatch = this.grid = this.wholePicture = this.picture = null;
    this.fitSky();
    if (this.begin) {
      const [ra, dec, zoomed] = this.begin;
      this.begin = null;
      this.lookAt(ra, dec, zoomed);
    }
    this.paintImage();
    this.rebuild();
  }

  private fitSky(): void {
    const [[left, top], [right, bottom]] = geoPath(this.plane.projection).bounds({ type: "Sphere" });
    this.fit = Math.min((this.width - 2 * MARGIN - 30) / (right - left), (this.height - 2 * MARGIN) / (bottom - top));
    const middle: [number, number] = [this.width / 2, this.height / 2];
    const half = [((right - left) / 2) * this.fit + 120, ((bottom - top) / 2) * this.fit + 120];
    this.zoomer.translateExtent([
      [Math.min(0, middle[0] - half[0]), Math.min(0, middle[1] - half[1])],
      [Math.max(this.width, middle[0] + half[0]), Math.max(this.height, middle[1] + half[1])],
    ]);
  }

  // Pixels before any zoom.
  private unzoomed(x: number, y: number): [number, number] {
    return [this.width / 2 + x * this.fit, this.height / 2 + y * this.fit];
  }

  private toPlane(x: number, y: number): [number, number] {
    const [px, py] = this.transform.invert([x, y]);
    return [(px - this.width / 2) / this.fit, (py - this.height / 2) / this.fit];
  }

  private isOnScreen([x, y]: [number, number]): boolean {
    return x >= 0 && y >= 0 && x <= this.width && y <= this.height;
  }

  private view(): View {
    return {
      width: this.width,
      height: this.height,
      toScreen: (x, y) => this.transform.apply(this.unzoomed(x, y)),
      toPlane: (x, y) => this.toPlane(x, y),
    };
  }

  private draw(): void {
    const pen = this.ground.getContext("2d", { alpha: false })!;
    const dots = ratio();
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.fillStyle = this.palette.background;
    pen.fillRect(0, 0, this.width, this.height);
    if (!this.width) return;
    this.drawSky(pen);
    this.drawCells(pen);
    this.drawGrid(pen);
    this.drawLines(pen, this.segments, this.palette.match, 1.5);
    this.drawLines(pen, this.outlines, this.palette.region, 2);
    this.drawPoints(pen);
    this.drawFront();
  }

  private drawLines(pen: CanvasRenderingContext2D, lines: [number, number][][], colour: string, wide: number): void {
    if (!lines.length) return;
    const path = new Path2D();
    for (const line of lines) {
      let last: [number, number] | null = null;
      for (const [ra, dec] of line) {
        const point = this.screen(ra, dec);
        if (point && last && Math.abs(point[0] - last[0]) < this.width) path.lineTo(...point);
        else if (point) path.moveTo(...point);
        last = point;
      }
    }
    pen.lineWidth = wide;
    pen.strokeStyle = colour;
    pen.stroke(path);
  }

  private drawPoints(pen: CanvasRenderingContext2D): void {
    if (!this.points) return;
    const { given, placed } = this.points;
    const [originX, originY] = this.transform.apply(this.unzoomed(0, 0));
    const zoomed = this.fit * this.transform.k;
    const paths = given.colours.map(() => new Path2D());
    for (let at = 0; at < given.ra.length; at++) {
      const [x, y] = [placed[2 * at] * zoomed + originX, placed[2 * at + 1] * zoomed + originY];
      const radius = given.radius[at];
      if (!(x > -radius && y > -radius && x < this.width + radius && y < this.height + radius)) continue;
      paths[given.colour[at]].moveTo(x + radius, y);
      paths[given.colour[at]].arc(x, y, radius, 0, 2 * Math.PI);
    }
    pen.lineWidth = 0.8;
    pen.strokeStyle = this.palette.gridHalo;
    paths.forEach((path, at) => {
      pen.fillStyle = given.colours[at];
      pen.fill(path);
      if (given.ra.length < 4000) pen.stroke(path);
    });
  }

  private drawSky(pen: CanvasRenderingContext2D): void {
    this.drawnSky ??= this.skyPaths();
    const { k } = this.transform;
    const [x, y] = this.transform.apply(this.unzoomed(0, 0));
    const outline = new Path2D();
    outline.addPath(this.drawnSky.outline, { a: this.fit * k, b: 0, c: 0, d: this.fit * k, e: x, f: y });
    pen.fillStyle = this.palette.empty;
    pen.fill(outline);
    this.hatch ??= hatched(pen, this.palette.hatch);
    pen.fillStyle = this.hatch;
    pen.fill(outline);
  }

  private skyPaths(): { outline: Path2D; galactic: Path2D } {
    const { projection } = this.plane;
    const outline = new Path2D(geoPath(projection)({ type: "Sphere" }) ?? "");
    const galactic = geoPath(projection)({ type: "LineString", coordinates: galacticPlane() });
    return { outline, galactic: new Path2D(galactic ?? "") };
  }

  private drawCells(pen: CanvasRenderingContext2D): void {
    if (this.paintsImage) this.drawImage(pen);
    const { built, scale } = this;
    if (!built || !scale) return;
    const k = this.carryOver(pen, built.transform);
    const colours = this.coloursOf(scale);
    built.fills.forEach((path, at) => {
      pen.fillStyle = colours[at];
      pen.fill(path);
    });
    if (this.paintsImage) {
      pen.strokeStyle = this.palette.partitionUnder;
      pen.lineWidth = 2 / k;
      pen.stroke(built.borders);
    }
    pen.strokeStyle = this.paintsImage ? this.palette.partition : this.palette.border;
    pen.lineWidth = 0.8 / k;
    pen.stroke(built.borders);
    built.overlays.forEach((path, at) => this.drawOverlay(pen, path, this.overlays[at].overlay, k));
    pen.setTransform(ratio(), 0, 0, ratio(), 0, 0);
  }

  private drawImage(pen: CanvasRenderingContext2D): void {
    const whole = this.wholePicture;
    const { picture } = this;
    pen.save();
    if (whole && whole !== picture) {
      if (picture) {
        this.carryOver(pen, picture.transform);
        const sharp = new Path2D();
        sharp.rect(-1e6, -1e6, 3e6, 3e6);
        sharp.rect(0, 0, this.width, this.height);
        pen.clip(sharp, "evenodd"); // there is a sharper picture
      }
      this.carryOver(pen, whole.transform);
      pen.drawImage(whole.canvas, 0, 0, whole.canvas.width * whole.shrunk, whole.canvas.height * whole.shrunk);
    }
    pen.restore();
    if (picture) {
      const larger = this.carryOver(pen, picture.transform);
      pen.imageSmoothingEnabled = larger * picture.shrunk !== 1 || ratio() !== 1;
      pen.drawImage(picture.canvas, 0, 0, picture.canvas.width * picture.shrunk, picture.canvas.height * picture.shrunk);
      pen.imageSmoothingEnabled = true;
    }
    pen.setTransform(ratio(), 0, 0, ratio(), 0, 0);
  }

  // Cells as one area: it is outlined around all of them, and not around each.
  private drawOverlay(pen: CanvasRenderingContext2D, path: Path2D, overlay: Overlay, k: number): void {
    const area = (this.scratch ??= canvas("area"));
    [area.width, area.height] = [pen.canvas.width, pen.canvas.height]; // which also clears it
    const inside = area.getContext("2d")!;
    inside.setTransform(pen.getTransform());
    inside.strokeStyle = inside.fillStyle = overlay.colour;
    inside.lineWidth = 3.2 / k;
    inside.setLineDash(overlay.dashed ? [7 / k, 5 / k] : []);
    inside.stroke(path);
    inside.globalCompositeOperation = "destination-out";
    inside.fill(path);
    pen.fillStyle = overlay.colour;
    pen.globalAlpha = overlay.filled ? 0.55 : 0.16;
    pen.fill(path);
    pen.globalAlpha = 1;
    pen.save();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(area, 0, 0);
    pen.restore();
  }

  // Lets the pen draw what was made under an earlier transform where it is by now; gives how much larger it is.
  private carryOver(pen: CanvasRenderingContext2D, then: ZoomTransform): number {
    const dots = ratio();
    const k = this.transform.k / then.k;
    const [right, down] = [this.transform.x - k * then.x, this.transform.y - k * then.y];
    pen.setTransform(dots * k, 0, 0, dots * k, dots * right, dots * down);
    return k;
  }

  private drawGrid(pen: CanvasRenderingContext2D): void {
    const { k } = this.transform;
    if (!this.grid || !this.moving) this.grid = this.makeGrid();
    const { made, lines, transform } = this.grid;
    const larger = this.carryOver(pen, transform);
    pen.lineWidth = 1.6 / larger;
    pen.strokeStyle = this.palette.gridUnder; // so that lines show on any colour
    pen.stroke(lines);
    pen.lineWidth = 0.7 / larger;
    pen.strokeStyle = this.palette.grid;
    pen.stroke(lines);
    pen.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    const [left, top] = this.transform.apply(this.unzoomed(0, 0));
    pen.save();
    pen.translate(left, top);
    pen.scale(this.fit * k, this.fit * k);
    pen.lineWidth = 3.4 / (this.fit * k);
    pen.strokeStyle = this.palette.planeUnder;
    pen.setLineDash([7 / (this.fit * k), 5 / (this.fit * k)]);
    pen.stroke(this.drawnSky!.galactic);
    pen.lineWidth = 1.7 / (this.fit * k);
    pen.strokeStyle = this.palette.plane;
    pen.stroke(this.drawnSky!.galactic);
    pen.lineWidth = 1.2 / (this.fit * k);
    pen.setLineDash([]);
    pen.strokeStyle = this.palette.outline;
    pen.stroke(this.drawnSky!.outline);
    pen.restore();
    pen.font = "11.5px system-ui, sans-serif";
    pen.lineJoin = "round";
    pen.lineWidth = 3;
    pen.strokeStyle = this.palette.gridHalo;
    pen.fillStyle = this.palette.gridText;
    for (const { text, x, y, align } of made.labels) {
      const [px, py] = this.transform.apply(transform.invert([x, y]));
      pen.textAlign = align;
      pen.strokeText(text, px, py);
      pen.fillText(text, px, py);
    }
  }

  private makeGrid(): { made: Grid; lines: Path2D; transform: ZoomTransform } {
    const frame = FRAMES[this.gridFrame];
    const made: Grid = frame ? gridOf(this.plane, this.view(), frame) : { lines: [], labels: [] };
    const lines = new Path2D();
    for (const line of made.lines) line.forEach(([x, y], at) => (at ? lines.lineTo(x, y) : lines.moveTo(x, y)));
    return { made, lines, transform: this.transform };
  }

  private drawFront(): void {
    const pen = this.front.getContext("2d")!;
    const dots = ratio();
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    if (this.chosen && this.chosen.at >= 0 && this.chosen.point < 0) this.mark(pen, this.chosen, 2.5);
    if (this.hovered && this.pointer && this.hovered.point >= 0) this.ring(pen, this.hovered.point);
    else if (this.hovered && this.hovered.at >= 0 && this.pointer && this.bordersShown) this.mark(pen, this.hovered, 1.5);
    if (this.marked >= 0) this.ring(pen, this.marked);
    if (document.activeElement === this.front && this.front.matches(":focus-visible")) {
      pen.strokeStyle = this.palette.mark;
      pen.lineWidth = 1;
      const [x, y] = [this.width / 2, this.height / 2];
      pen.beginPath();
      pen.moveTo(x - 8, y);
      pen.lineTo(x + 8, y);
      pen.moveTo(x, y - 8);
      pen.lineTo(x, y + 8);
      pen.stroke();
    }
  }

  // A ring around a point.
  private ring(pen: CanvasRenderingContext2D, at: number): void {
    const { given } = this.points ?? {};
    const place = given && at < given.ra.length ? this.screen(given.ra[at], given.dec[at]) : null;
    if (!place) return;
    for (const [wide, colour] of [[4.5, this.palette.gridHalo], [2, this.palette.mark]] as const) {
      pen.lineWidth = wide;
      pen.strokeStyle = colour;
      pen.beginPath();
      pen.arc(place[0], place[1], given!.radius[at] + 4, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  private mark(pen: CanvasRenderingContext2D, pick: Pick, wide: number): void {
    const { order, npix } = pick.cells!.columns;
    const shape = this.plane.shapeOf(order[pick.at], npix[pick.at]);
    const [x, y] = this.transform.apply(this.unzoomed(0, 0));
    const path = new Path2D();
    trace(path, shape, 0, this.fit * this.transform.k, x, y, 0);
    pen.lineJoin = "round";
    pen.lineWidth = wide + 2;
    pen.strokeStyle = this.palette.gridHalo;
    pen.stroke(path);
    pen.lineWidth = wide;
    pen.strokeStyle = this.palette.mark;
    pen.stroke(path);
  }
}

function canvas(name: string): HTMLCanvasElement {
  const made = document.createElement("canvas");
  made.className = name;
  return made;
}

// The highest order whose pixels are wide enough for borders, at so many pixels per unit of the plane.
function borderedOrders(zoomed: number): number {
  const wide = Math.sqrt(Math.PI / 3) * SCALE * zoomed; // of order 0
  return Math.floor(Math.log2(wide / BORDER_FROM));
}

function blockOf(cells: Cells): Block {
  const first = cells.columns.partitions.findIndex((partitions) => partitions > 1);
  return { cells, gathered: first < 0 ? -1 : cells.columns.order[first], shapes: null, bins: null };
}

function tileKey(gathered: number, npix: number): string {
  return `${gathered}:${npix}`;
}

function ratio(): number {
  return Math.min(2, window.devicePixelRatio || 1);
}

function meets(
  box: Float64Array, at: number, region: { left: number; top: number; right: number; bottom: number },
): boolean {
  return (
    box[4 * at] <= region.right && box[4 * at + 2] >= region.left &&
    box[4 * at + 1] <= region.bottom && box[4 * at + 3] >= region.top
  );
}

// Adds the rings of a cell to a path, scaled and moved, and widened by some pixels.
function trace(
  path: Path2D, shapes: Shapes, cell: number, scale: number, right: number, down: number, wider: number,
): void {
  const { xy, ringStart, cellStart } = shapes;
  for (let ring = cellStart[cell]; ring < cellStart[cell + 1]; ring++) {
    const [first, last] = [ringStart[ring], ringStart[ring + 1]];
    let [midX, midY] = [0, 0];
    if (wider) {
      for (let at = first; at < last; at++) {
        midX += xy[2 * at];
        midY += xy[2 * at + 1];
      }
      midX /= last - first;
      midY /= last - first;
    }
    for (let at = first; at < last; at++) {
      let x = xy[2 * at] * scale + right;
      let y = xy[2 * at + 1] * scale + down;
      if (wider) {
        const [outX, outY] = [xy[2 * at] - midX, xy[2 * at + 1] - midY];
        const far = Math.sqrt(outX * outX + outY * outY) || 1;
        x += (wider * outX) / far;
        y += (wider * outY) / far;
      }
      if (at === first) path.moveTo(x, y);
      else path.lineTo(x, y);
    }
    path.closePath();
  }
}

function hatched(pen: CanvasRenderingContext2D, colour: string): CanvasPattern {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 7;
  const inside = tile.getContext("2d")!;
  inside.strokeStyle = colour;
  inside.lineWidth = 1;
  inside.beginPath();
  inside.moveTo(-1, 8);
  inside.lineTo(8, -1);
  inside.moveTo(-1, 1);
  inside.lineTo(1, -1);
  inside.moveTo(6, 8);
  inside.lineTo(8, 6);
  inside.stroke();
  return pen.createPattern(tile, "repeat")!;
}
