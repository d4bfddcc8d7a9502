"""Stock keeping for a small shop."""

from dataclasses import dataclass, field


@dataclass
class Item:
    name: str
    price: float
    quantity: int = 0


@dataclass
class Inventory:
    items: dict[str, Item] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        if item.name in self.items:
            self.items[item.name].quantity += item.quan‸
        else:
            self.items[item.name] = item

    def total_value(self) -> float:
        return sum(item.price * item.quantity for item in self.items.values())
