// Whether a server that has ended is started again. One that ends again and again is left alone, so that nothing spins.

export const WINDOW_MS = 180_000;
export const MOST = 3;

export class Deaths {
  private times: number[] = [];

  /** now: milliseconds of any steady clock. Whether it is to be started once more. */
  count(now: number): boolean {
    this.times = [...this.times.filter((time) => now - time < WINDOW_MS), now];
    return this.times.length <= MOST;
  }

  get recent(): number {
    return this.times.length;
  }

  /** The user has started it by hand. */
  forget(): void {
    this.times = [];
  }
}
