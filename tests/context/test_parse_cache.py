"""Products of files by fingerprint: kept while the file is the same, bounded, counted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from context.parse_cache import Fingerprint, ParseCache


def test_the_same_file_is_found_and_counted() -> None:
    cache: ParseCache[str] = ParseCache(100)
    made = []

    def make() -> str:
        made.append(1)
        return f"product {len(made)}"

    def get(fingerprint: Fingerprint) -> str:
        return cache.get_or_make("a.py", fingerprint, make, len)

    assert get(Fingerprint(1, 5)) == "product 1"
    assert get(Fingerprint(1, 5)) == "product 1"
    assert get(Fingerprint(2, 5)) == "product 2", "its time changed, and nobody knows its content"
    assert get(Fingerprint(2, 6)) == "product 3"
    assert cache.counts == {"unknown": 1, "changed": 2, "hit": 1}


def test_equal_content_is_the_same_whatever_its_time_says() -> None:
    cache: ParseCache[str] = ParseCache(100)
    cache.put("a", Fingerprint(1, 5, b"x"), "p", 1)
    assert cache.get("a", Fingerprint(2, 5, b"x")) == "p"
    assert cache.get("a", Fingerprint(2, 5)) == "p", "the newer time was learned"
    assert cache.get("a", Fingerprint(2, 5, b"y")) is None, "changed within one tick of the clock"
    assert len(cache) == 0 and cache.n_bytes == 0


def test_what_is_longest_unused_goes_first() -> None:
    cache: ParseCache[str] = ParseCache(30)
    same = Fingerprint(1, 1)
    for key in "abc":
        cache.put(key, same, key, 10)
    assert cache.get("a", same) == "a"
    cache.put("d", same, "d", 10)
    assert [cache.get(key, same) for key in "abcd"] == ["a", None, "c", "d"]
    cache.put("e", same, "e", 31)
    assert cache.get("e", same) is None and cache.counts["too big"] == 1
    cache.drop("a")
    assert cache.get("a", same) is None and cache.counts["dropped"] == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 2), st.integers(0, 40)), max_size=40))
def test_never_more_than_its_bytes_and_never_another_file(steps: list[tuple[str, int, int]]) -> None:
    cache: ParseCache[tuple[str, int]] = ParseCache(60)
    sizes: dict[str, int] = {}
    for key, mtime, size in steps:
        found = cache.get(key, Fingerprint(mtime, 1))
        assert found in (None, (key, mtime))
        if found is None:
            cache.put(key, Fingerprint(mtime, 1), (key, mtime), size)
            sizes[key] = size
        kept = [each for each in sizes if each in cache._entries]
        assert cache.n_bytes == sum(sizes[each] for each in kept) <= 60 and len(kept) == len(cache)
