/** Keeps what was used last, a bounded number of it. */
export class Recent<Value> {
  private readonly kept = new Map<string, Value>();

  constructor(readonly limit: number) {}

  get size(): number {
    return this.kept.size;
  }

  get(key: string): Value | undefined {
    const value = this.kept.get(key);
    if (value !== undefined) {
      // A Map lists its keys in the order they were set: the first is the one that was not used for longest.
      this.kept.delete(key);
      this.kept.set(key, value);
    }
    return value;
  }

  has(key: string): boolean {
    return this.kept.has(key);
  }

  set(key: string, value: Value): void {
    this.kept.delete(key);
    this.kept.set(key, value);
    for (const first of this.kept.keys()) {
      if (this.kept.size <= this.limit) break;
      this.kept.delete(first);
    }
  }

  delete(key: string): void {
    this.kept.delete(key);
  }
}
