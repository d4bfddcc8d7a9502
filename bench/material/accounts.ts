// Household accounts: entries in several currencies, monthly budgets, and a summary for the kitchen wall.

export type Currency = "EUR" | "CHF" | "GBP" | "SEK";

export interface Account {
  readonly id: string;
  readonly owner: string;
  readonly currency: Currency;
  readonly openedOn: string;
}

export interface Entry {
  readonly id: number;
  readonly accountId: string;
  readonly day: string;
  readonly cents: number;
  readonly category: string;
  readonly text: string;
}

export interface Budget {
  readonly category: string;
  readonly monthlyCents: number;
  readonly carriesOver: boolean;
}

export interface MonthLine {
  category: string;
  spent: number;
  allowed: number;
  entries: number;
}

export class AccountError extends Error {
  constructor(
    message: string,
    readonly accountId?: string,
  ) {
    super(message);
    this.name = "AccountError";
  }
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const FALLBACK_CATEGORY = "other";

export function monthOf(day: string): string {
  if (!DAY.test(day)) {
    throw new AccountError(`${day} is not a day`);
  }
  return day.slice(0, 7);
}

export function formatCents(cents: number, currency: Currency): string {
  const sign = cents < 0 ? "-" : "";
  const whole = Math.floor(Math.abs(cents) / 100);
  const rest = String(Math.abs(cents) % 100).padStart(2, "0");
  const grouped = String(whole).replace(/\B(?=(\d{3})+(?!\d))/g, " ");
  return `${sign}${grouped}.${rest} ${currency}`;
}

export class Rates {
  private readonly table = new Map<string, number>();

  set(from: Currency, to: Currency, rate: number): void {
    if (!(rate > 0)) {
      throw new AccountError(`a rate of ${rate} makes no sense`);
    }
    this.table.set(`${from}/${to}`, rate);
    this.table.set(`${to}/${from}`, 1 / rate);
  }

  convert(cents: number, from: Currency, to: Currency): number {
    if (from === to) {
      return cents;
    }
    const rate = this.table.get(`${from}/${to}`);
    if (rate === undefined) {
      throw new AccountError(`no rate from ${from} to ${to}`);
    }
    return Math.round(cents * rate);
  }
}

export class Ledger {
  private readonly accounts = new Map<string, Account>();
  private readonly entries: Entry[] = [];
  private readonly budgets = new Map<string, Budget>();
  private nextId = 1;

  constructor(
    readonly home: Currency,
    private readonly rates: Rates,
  ) {}

  open(account: Account): void {
    if (this.accounts.has(account.id)) {
      throw new AccountError(`there is an account ${account.id} already`, account.id);
    }
    monthOf(account.openedOn);
    this.accounts.set(account.id, account);
  }

  account(id: string): Account {
    const found = this.accounts.get(id);
    if (!found) {
      throw new AccountError(`no account ${id}`, id);
    }
    return found;
  }

  setBudget(budget: Budget): void {
    if (budget.monthlyCents < 0) {
      throw new AccountError(`the budget for ${budget.category} is negative`);
    }
    this.budgets.set(budget.category, budget);
  }

  post(accountId: string, day: string, cents: number, category: string, text = ""): Entry {
    const account = this.account(accountId);
    if (day < account.openedOn) {
      throw new AccountError(`${accountId} was not open on ${day}`, accountId);
    }
    if (!Number.isInteger(cents) || cents === 0) {
      throw new AccountError(`${cents} is not an amount in cents`, accountId);
    }
    const entry: Entry = {
      id: this.nextId++,
      accountId,
      day,
      cents,
      category: category.trim().toLowerCase() || FALLBACK_CATEGORY,
      text: text.trim(),
    };
    this.entries.push(entry);
    return entry;
  }

  // block begins here
  transfer(fromId: string, toId: string, day: string, cents: number): [Entry, Entry] {
    if (cents <= 0) {
      throw new AccountError("only positive amounts can be moved", fromId);
    }
    const source = this.account(fromId);
    const target = this.account(toId);
    if (this.balance(source.id, day) < cents) {
      const missing = cents - this.balance(source.id, day);
      throw new AccountError(`${formatCents(missing, source.currency)} too little in ${source.id}`, source.id);
    }
    const arriving = this.rates.convert(cents, source.currency, target.currency);
    const taken = this.post(source.id, day, -cents, "transfer", `to ${target.owner}`);
    const given = this.post(target.id, day, arriving, "transfer", `from ${source.owner}`);
    return [taken, given];
  }

  owners(): Record<string, string[]> {
    const byOwner: Record<string, string[]> = {};
    for (const account of this.accounts.values()) {
      const ids = byOwner[account.owner] ?? [];
      byOwner[account.owner] = [...ids, account.id];
    }
    return byOwner;
  }

  // block ends here
  balance(accountId: string, upTo: string): number {
    this.account(accountId);
    let sum = 0;
    for (const entry of this.entries) {
      if (entry.accountId === accountId && entry.day <= upTo) {
        sum += entry.cents;
      }
    }
    return sum;
  }

  worth(upTo: string): number {
    let sum = 0;
    for (const account of this.accounts.values()) {
      sum += this.rates.convert(this.balance(account.id, upTo), account.currency, this.home);
    }
    return sum;
  }

  void(id: number): Entry {
    const index = this.entries.findIndex((entry) => entry.id === id);
    if (index < 0) {
      throw new AccountError(`no entry number ${id}`);
    }
    return this.entries.splice(index, 1)[0];
  }

  *between(first: string, last: string): Generator<Entry> {
    for (const entry of this.entries) {
      if (first <= entry.day && entry.day <= last) {
        yield entry;
      }
    }
  }

  month(month: string): MonthLine[] {
    const lines = new Map<string, MonthLine>();
    for (const [category, budget] of this.budgets) {
      lines.set(category, { category, spent: 0, allowed: this.allowance(budget, month), entries: 0 });
    }
    for (const entry of this.between(`${month}-01`, `${month}-31`)) {
      if (entry.category === "transfer" || entry.cents > 0) {
        continue;
      }
      const line = lines.get(entry.category) ?? { category: entry.category, spent: 0, allowed: 0, entries: 0 };
      line.spent += this.rates.convert(-entry.cents, this.account(entry.accountId).currency, this.home);
      line.entries += 1;
      lines.set(entry.category, line);
    }
    return [...lines.values()].sort((a, b) => b.spent - a.spent);
  }

  private allowance(budget: Budget, month: string): number {
    if (!budget.carriesOver) {
      return budget.monthlyCents;
    }
    const earlier = new Set(this.entries.map((entry) => monthOf(entry.day)).filter((m) => m < month));
    let left = budget.monthlyCents;
    for (const past of [...earlier].sort()) {
      left += budget.monthlyCents - this.spentIn(budget.category, past);
    }
    return Math.max(left, 0);
  }

  private spentIn(category: string, month: string): number {
    let sum = 0;
    for (const entry of this.entries) {
      if (entry.category === category && monthOf(entry.day) === month && entry.cents < 0) {
        sum += this.rates.convert(-entry.cents, this.account(entry.accountId).currency, this.home);
      }
    }
    return sum;
  }
}

export function summary(ledger: Ledger, month: string): string {
  const rows = ledger.month(month);
  const width = Math.max(8, ...rows.map((row) => row.category.length));
  const out: string[] = [`Month ${month}`, ""];
  for (const row of rows) {
    const share = row.allowed > 0 ? Math.round((100 * row.spent) / row.allowed) : 0;
    const mark = row.allowed > 0 && row.spent > row.allowed ? "!" : " ";
    const amount = formatCents(row.spent, ledger.home).padStart(14);
    out.push(`${mark} ${row.category.padEnd(width)} ${amount} ${String(share).padStart(4)} % (${row.entries})`);
  }
  const total = rows.reduce((sum, row) => sum + row.spent, 0);
  out.push("", `Spent ${formatCents(total, ledger.home)} in ${rows.length} categories.`);
  out.push(`Worth ${formatCents(ledger.worth(`${month}-31`), ledger.home)} at the end.`);
  return out.join("\n");
}

export function parseStatement(text: string): Array<Omit<Entry, "id" | "accountId">> {
  const rows: Array<Omit<Entry, "id" | "accountId">> = [];
  for (const [number, line] of text.split("\n").entries()) {
    if (line.trim() === "" || line.startsWith("#")) {
      continue;
    }
    const [day, amount, category, ...rest] = line.split("|").map((cell) => cell.trim());
    const cents = Math.round(Number(amount?.replace(",", ".")) * 100);
    if (!day || !DAY.test(day) || Number.isNaN(cents)) {
      throw new AccountError(`line ${number + 1} of the statement makes no sense: ${line}`);
    }
    rows.push({ day, cents, category: category || FALLBACK_CATEGORY, text: rest.join(" | ") });
  }
  return rows;
}
