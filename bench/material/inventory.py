"""Stock of a small warehouse: items, bins, movements, and the reports that the office asks for every Friday."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum

CURRENCY = "EUR"
LOW_STOCK = 5
DORMANT_AFTER = timedelta(days=180)


class Unit(StrEnum):
    PIECE = "piece"
    METRE = "metre"
    LITRE = "litre"


class Reason(StrEnum):
    DELIVERY = "delivery"
    SALE = "sale"
    RETURN = "return"
    LOSS = "loss"
    COUNT = "count"


class StockError(Exception):
    """A movement that the warehouse can't make, in words for the person at the desk."""


@dataclass(frozen=True)
class Item:
    """A thing that is kept: its number, what it is called, and what one unit of it costs."""

    sku: str
    name: str
    price: Decimal
    unit: Unit = Unit.PIECE
    tags: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.sku or self.sku != self.sku.strip().upper():
            raise StockError(f"{self.sku!r} is not an item number")
        if self.price < 0:
            raise StockError(f"{self.sku} has a negative price")

    @property
    def label(self) -> str:
        return f"{self.sku} {self.name} ({self.unit.value})"


@dataclass(frozen=True)
class Movement:
    """Something came in (positive quantity) or went out (negative), on a day, for a reason."""

    sku: str
    bin_name: str
    quantity: int
    reason: Reason
    day: date
    note: str = ""

    @property
    def is_inbound(self) -> bool:
        return self.quantity > 0


@dataclass
class Bin:
    """A shelf with room for so many units, whatever they are."""

    name: str
    capacity: int
    contents: dict[str, int] = field(default_factory=dict)

    @property
    def used(self) -> int:
        return sum(self.contents.values())

    @property
    def free(self) -> int:
        return self.capacity - self.used

    def put(self, sku: str, quantity: int) -> None:
        if quantity > self.free:
            raise StockError(f"bin {self.name} has room for {self.free}, not for {quantity}")
        self.contents[sku] = self.contents.get(sku, 0) + quantity

    def take(self, sku: str, quantity: int) -> None:
        held = self.contents.get(sku, 0)
        if quantity > held:
            raise StockError(f"bin {self.name} holds {held} of {sku}, not {quantity}")
        if quantity == held:
            del self.contents[sku]
        else:
            self.contents[sku] = held - quantity


class Warehouse:
    """All bins and items, and the book of movements. The book is the truth; the bins follow from it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: dict[str, Item] = {}
        self.bins: dict[str, Bin] = {}
        self.book: list[Movement] = []

    def register(self, item: Item) -> None:
        known = self.items.get(item.sku)
        if known is not None and known.unit is not item.unit:
            raise StockError(f"{item.sku} is already kept by the {known.unit.value}")
        self.items[item.sku] = item

    def add_bin(self, name: str, capacity: int) -> Bin:
        if name in self.bins:
            raise StockError(f"there is a bin {name} already")
        self.bins[name] = Bin(name, capacity)
        return self.bins[name]

    def item(self, sku: str) -> Item:
        try:
            return self.items[sku]
        except KeyError:
            raise StockError(f"nobody registered {sku}") from None

    def bin(self, name: str) -> Bin:
        try:
            return self.bins[name]
        except KeyError:
            raise StockError(f"there is no bin {name}") from None

    def record(self, movement: Movement) -> None:
        """Write a movement into the book and move the goods; neither happens if one can't."""
        self.item(movement.sku)
        place = self.bin(movement.bin_name)
        if movement.quantity == 0:
            raise StockError("a movement of nothing")
        if movement.is_inbound:
            place.put(movement.sku, movement.quantity)
        else:
            place.take(movement.sku, -movement.quantity)
        self.book.append(movement)

    def receive(self, sku: str, quantity: int, day: date, note: str = "") -> list[Movement]:
        """Spread a delivery over the bins, fullest first, so that empty ones stay empty."""
        self.item(sku)
        if quantity > sum(place.free for place in self.bins.values()):
            raise StockError(f"no room for {quantity} of {sku}")
        done = []
        for place in sorted(self.bins.values(), key=lambda b: (b.free, b.name)):
            share = min(quantity, place.free)
            if share == 0:
                continue
            movement = Movement(sku, place.name, share, Reason.DELIVERY, day, note)
            self.record(movement)
            done.append(movement)
            quantity -= share
        return done

    # block begins here
    def pick(self, sku: str, quantity: int, day: date, customer: str = "walk-in") -> list[Movement]:
        """Collect an order from the bins that hold the least, and book each part as a sale."""
        item = self.item(sku)
        available = self.on_hand(sku)
        if quantity > available:
            raise StockError(f"only {available} of {item.label} left, {customer} wants {quantity}")
        picked: list[Movement] = []
        holders = [place for place in self.bins.values() if sku in place.contents]
        for place in sorted(holders, key=lambda b: (b.contents[sku], b.name)):
            share = min(quantity, place.contents[sku])
            movement = Movement(
                sku,
                place.name,
                -share,
                Reason.SALE,
                day,
                note=f"sold to {customer}",
            )
            self.record(movement)
            picked.append(movement)
            quantity -= share
            if quantity == 0:
                break
        return picked

    # block ends here
    def on_hand(self, sku: str) -> int:
        return sum(place.contents.get(sku, 0) for place in self.bins.values())

    def count(self, bin_name: str, sku: str, seen: int, day: date) -> Movement | None:
        """Correct the book after somebody counted; None if the book was right."""
        held = self.bin(bin_name).contents.get(sku, 0)
        if seen == held:
            return None
        movement = Movement(sku, bin_name, seen - held, Reason.COUNT, day, f"counted {seen}, book said {held}")
        self.record(movement)
        return movement

    def value(self) -> Decimal:
        total = Decimal(0)
        for place in self.bins.values():
            for sku, quantity in place.contents.items():
                total += self.items[sku].price * quantity
        return total

    def low_stock(self, limit: int = LOW_STOCK) -> Iterator[tuple[Item, int]]:
        for sku in sorted(self.items):
            quantity = self.on_hand(sku)
            if quantity < limit:
                yield self.items[sku], quantity

    def dormant(self, today: date) -> list[Item]:
        """Items in stock that nobody has sold or returned for half a year."""
        last: dict[str, date] = {}
        for movement in self.book:
            if movement.reason in (Reason.SALE, Reason.RETURN):
                last[movement.sku] = max(movement.day, last.get(movement.sku, movement.day))
        return [
            item
            for sku, item in sorted(self.items.items())
            if self.on_hand(sku) and today - last.get(sku, date.min) > DORMANT_AFTER
        ]


def read_items(text: str) -> list[Item]:
    """Items from the supplier's list: sku;name;price;unit;tags, one a line, with a heading."""
    items = []
    for number, row in enumerate(csv.DictReader(io.StringIO(text), delimiter=";"), start=2):
        try:
            tags = frozenset(tag.strip() for tag in row["tags"].split(",") if tag.strip())
            items.append(Item(row["sku"], row["name"].strip(), Decimal(row["price"]), Unit(row["unit"]), tags))
        except (KeyError, ValueError, ArithmeticError) as error:
            raise StockError(f"line {number} of the list: {error}") from error
    return items


def totals_by_tag(warehouse: Warehouse) -> dict[str, Decimal]:
    totals: defaultdict[str, Decimal] = defaultdict(Decimal)
    for item in warehouse.items.values():
        worth = item.price * warehouse.on_hand(item.sku)
        for tag in item.tags or {"untagged"}:
            totals[tag] += worth
    return dict(sorted(totals.items()))


def turnover(book: Iterable[Movement], first: date, last: date) -> dict[str, int]:
    """Units sold per item between two days, both included; what came back is taken off."""
    sold: defaultdict[str, int] = defaultdict(int)
    for movement in book:
        if first <= movement.day <= last and movement.reason in (Reason.SALE, Reason.RETURN):
            sold[movement.sku] -= movement.quantity
    return {sku: units for sku, units in sorted(sold.items()) if units}


def friday_report(warehouse: Warehouse, today: date) -> str:
    monday = today - timedelta(days=today.weekday())
    lines = [f"{warehouse.name}, week of {monday:%d %B %Y}", ""]
    lines.append(f"Stock is worth {warehouse.value():,.2f} {CURRENCY} in {len(warehouse.bins)} bins.")
    sales = turnover(warehouse.book, monday, today)
    if sales:
        lines.append("Sold this week:")
        for sku, units in sorted(sales.items(), key=lambda pair: -pair[1]):
            lines.append(f"  {units:>6} x {warehouse.item(sku).label}")
    short = list(warehouse.low_stock())
    if short:
        lines.append("To be ordered:")
        lines.extend(f"  {item.label}: {quantity} left" for item, quantity in short)
    for item in warehouse.dormant(today):
        lines.append(f"Nobody wants {item.label}.")
    return "\n".join(lines) + "\n"
