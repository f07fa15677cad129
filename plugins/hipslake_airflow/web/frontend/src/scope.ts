// What part of a catalog is looked at: shared by the map, the table of rows and the downloads.
export interface Scope {
  region: string; // as the filter language and the exports write it; "" is all of the sky
  filters: string;
  key: string; // of the row that is chosen; "" if none is
  follows: boolean; // whether the region is what the map shows
}

export type Part = keyof Scope;

export class Looking {
  readonly now: Scope;
  private readonly told: ((changed: Part[]) => void)[] = [];

  constructor(given: Partial<Scope>) {
    this.now = { region: "", filters: "", key: "", follows: !given.region, ...given };
  }

  onChange(tell: (changed: Part[]) => void): void {
    this.told.push(tell);
  }

  set(given: Partial<Scope>): void {
    const changed = (Object.keys(given) as Part[]).filter((part) => given[part] !== this.now[part]);
    if (!changed.length) return;
    Object.assign(this.now, given);
    for (const tell of this.told) tell(changed);
  }
}
