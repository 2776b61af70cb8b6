"""The search for devices gives what a plain model of it does, in worlds drawn at random.

The model keeps no books: before each device it works out from all that are held whether one more
may be. Where the search takes back what it took, it must be as if it never had.
"""

import random
from dataclasses import dataclass, field, replace
from itertools import combinations

import pytest

from bayplan.framework import ClusterObjects, NodeTable
from bayplan.plugins.dynamic_resources import allocator
from bayplan.plugins.dynamic_resources.claims import ClaimBooks
from bayplan.plugins.dynamic_resources.constraints import AllocationError
from bayplan.plugins.dynamic_resources.pools import Features, Pools
from bayplan.plugins.dynamic_resources.requests import alternatives
from bayplan.testing import (
    make_device,
    make_device_class,
    make_node,
    make_resource_claim,
    make_slice,
    request,
)

DRIVER = "gpu.example.com"
COUNTERS = {"slots": 3, "links": 2}
MOST = 4
"""Devices that one claim can hold here."""


class Error(Exception):
    """The attempt ends here."""


class Doubt(Exception):
    """There may be a solution once a pool is put right."""


@dataclass
class Card:
    """A device: what it is, and what other pods' claims hold of it."""

    pool: str
    name: str
    model: str | None = None
    rack: str | None = None
    sick: bool = False
    slots: int = 0
    links: int = 0
    memory: int | None = None
    shared: bool = False
    awaited: bool = False
    elsewhere: bool = False
    whole: bool = False
    parts: list[int | None] = field(default_factory=list)

    @classmethod
    def draw(cls, rng, pool, name):
        card = cls(pool, name)
        card.model = rng.choice("xxy") if rng.random() < 0.8 else None
        card.rack = rng.choice("ab")
        card.sick = rng.random() < 0.2
        if pool == "p":  # the pool with counters
            card.slots = rng.choice((0, 1, 1, 2))
            card.links = rng.choice((0, 0, 1))
        card.memory = rng.choice((None, None, 2, 4))
        card.awaited = rng.random() < 0.1
        card.elsewhere = pool == "q" and rng.random() < 0.2
        card.shared = rng.random() < 0.4
        card.whole = rng.random() < 0.2
        if rng.random() < (0.3 if card.shared else 0.1):  # which was shared once
            card.parts = [rng.choice((1, 2)) if card.memory else None]
        return card

    def body(self):
        more = {}
        if self.sick:
            more["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
        if self.shared:
            more["allowMultipleAllocations"] = True
        if self.awaited:
            more |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
        if self.pool == "q":
            more["nodeName"] = "b" if self.elsewhere else "a"
        needs = {n: {"value": str(v)} for n in COUNTERS if (v := getattr(self, n))}
        if needs:
            more["consumesCounters"] = [{"counterSet": "set", "counters": needs}]
        attributes = {n: v for n in ("model", "rack") if (v := getattr(self, n)) is not None}
        capacity = None if self.memory is None else {"memory": self.memory}
        return make_device(self.name, attributes, capacity, **more)

    def held(self):
        """The claims of others."""
        for number, part in enumerate([*["whole"] * self.whole, *self.parts]):
            result = {"request": "r", "driver": DRIVER, "pool": self.pool, "device": self.name}
            if part != "whole":
                result["shareID"] = f"share-{number}"
                result["consumedCapacity"] = {} if part is None else {"memory": str(part)}
            claim = make_resource_claim(f"held-{self.name}-{number}")
            claim.status["allocation"] = {"devices": {"results": [result]}}
            yield claim


@dataclass(frozen=True)
class Ask:
    """An alternative of a request; without a count it wants all."""

    count: int | None
    tolerant: bool = False
    admin: bool = False
    memory: int | None = None

    @classmethod
    def draw(cls, rng):
        memory = rng.choice((1, 2, 3)) if rng.random() < 0.3 else None
        return cls(rng.choice((1, 1, 2, None)), rng.random() < 0.3, rng.random() < 0.15, memory)

    def body(self):
        more = {"tolerations": [{"key": "sick", "operator": "Exists"}]} if self.tolerant else {}
        if self.admin:
            more["adminAccess"] = True
        if self.memory is not None:
            more["capacity"] = {"requests": {"memory": str(self.memory)}}
        return request("gpu", count=self.count, **more)


@dataclass
class Claim:
    """Requests, each with its alternatives, and constraints: whether the same, what, of which."""

    requests: list[list[Ask]]
    rules: list[tuple[bool, str, tuple[str, ...]]]

    @classmethod
    def draw(cls, rng, *, sharing, distinct):
        sizes = [rng.choice((1, 1, 2)) for _ in range(rng.choice((1, 2, 2)))]
        requests = [[Ask.draw(rng) for _ in range(size)] for size in sizes]
        if not sharing and rng.random() < 0.9:
            requests = [[replace(ask, memory=None) for ask in asks] for asks in requests]
        rules = []
        for _ in range(rng.choice((0, 1, 2))):
            names = rng.choice(((), ("r0",), ("r1",), ("r0/a0", "r1")))
            same = rng.random() < 0.5 or not distinct
            rules.append((same, rng.choice(("model", "rack")), names))
        return cls(requests, rules)

    def build(self, name):
        builder = make_resource_claim(name)
        for number, asks in enumerate(self.requests):
            if len(asks) == 1:
                builder.exactly(f"r{number}", asks[0].body())
            else:
                choices = {f"a{place}": ask.body() for place, ask in enumerate(asks)}
                builder.first_of(f"r{number}", **choices)
        for same, what, names in self.rules:
            (builder.same if same else builder.distinct)(f"{DRIVER}/{what}", *names)
        return builder.build()


@dataclass
class World:
    features: Features
    cards: list[Card]
    claims: list[Claim]
    state: str
    """Of pool q: whole, partial (a slice is missing), doubtful (two devices of one name)."""

    @classmethod
    def draw(cls, rng, *, modern):
        sharing = rng.random() < 0.7
        features = Features(modern=modern, sharing=sharing, binding=rng.random() < 0.7)
        cards = [Card.draw(rng, rng.choice("ppq"), f"d{n}") for n in range(rng.randint(1, 4))]
        claims = [
            # 1.36 forgets of distinct devices which there were
            Claim.draw(rng, sharing=sharing, distinct=modern)
            for _ in range(rng.choice((1, 1, 2)))
        ]
        return cls(features, cards, claims, rng.choice(["whole"] * 6 + ["partial", "doubtful"]))

    def slices(self):
        bodies = {pool: [card.body() for card in self.cards if card.pool == pool] for pool in "pq"}
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
        yield make_slice("s1", *bodies["p"], node="a", pool=pool)
        counters = {name: {"value": str(most)} for name, most in COUNTERS.items()}
        sets = [{"name": "set", "counters": counters}]
        yield make_slice("s2", node="a", pool=pool, sharedCounters=sets)
        more = bodies["q"][:1] if self.state == "doubtful" else []
        pool = {"name": "q", "generation": 1, "resourceSliceCount": 1 + (self.state == "partial")}
        yield make_slice("s3", *bodies["q"], *more, pool=pool, perDeviceNodeSelection=True)


# -- the plain model ------------------------------------------------------------------------------


class Model:
    """Depth first, as the search, but each answer is worked out from nothing.

    What is held is a list of (claim, request, which alternative, what it asks, card).
    """

    def __init__(self, world):
        self.world, self.features = world, world.features
        here = {card.pool for card in world.cards if not card.elsewhere}
        self.broken = "q" in here and world.state != "whole"
        pools = sorted(here, key=lambda pool: (any(c.awaited for c in self.usable(pool)), pool))
        self.cards = [card for pool in pools for card in self.usable(pool)]
        self.selected = [
            card
            for card in self.cards
            if not card.elsewhere and (self.features.binding or not card.awaited)
        ]
        self.asked = [
            (claim, number, asks)
            for claim, one in enumerate(world.claims)
            for number, asks in enumerate(one.requests)
        ]

    def usable(self, pool):
        if pool == "q" and self.world.state != "whole":
            return []
        return [card for card in self.world.cards if card.pool == pool]

    def run(self):
        for claim in self.world.claims:
            asks = [ask for asks in claim.requests for ask in asks]
            if not self.features.sharing and any(ask.memory is not None for ask in asks):
                raise Error
            if self.broken and any(ask.count is None for ask in asks):
                raise Error
            if sum(min(map(self.count, asks)) for asks in claim.requests) > MOST:
                raise Error
        found = self.find(0, [])
        if found is None and self.broken and self.world.state == "doubtful":
            raise Doubt
        return found

    def find(self, step, held):
        if step == len(self.asked):
            return held
        claim, number, asks = self.asked[step]
        for place, ask in enumerate(asks):
            if sum(one[0] == claim for one in held) + self.count(ask) > MOST:
                continue
            every = [self.everything(ask)]
            for cards in every if ask.count is None else combinations(self.selected, ask.count):
                more = [(claim, number, place, ask, card) for card in cards]
                if more and self.can_be(held, more):
                    found = self.find(step + 1, held + more)
                    if found is not None:
                        return found
        return None

    def can_be(self, held, more):
        for count in range(1, len(more) + 1):
            problem = self.problem(held + more[:count])
            if problem == "constraint" and more[0][3].count is None:
                raise Error
            if problem:
                return False
        return True

    def problem(self, held):
        """Why the last of these may not be had beside the others."""
        *others, (claim, _, _, ask, card) = held
        beside = [one for one in others if one[4] is card]
        if self.is_taken(claim, ask, card, beside):
            return "taken"
        left = self.counters_left(held)
        if left != self.counters_left(others) and min(left.values()) < 0:
            return "counters"
        if card.sick and not ask.tolerant:
            return "taint"
        for same, what, names in self.world.claims[claim].rules:
            if names and self.labels(held[-1]).isdisjoint(names):
                continue
            concerned = [
                getattr(one[4], what)
                for one in held
                if one[0] == claim and (not names or self.labels(one) & set(names))
            ]
            if None in concerned or len(set(concerned)) != (1 if same else len(concerned)):
                return "constraint"
        return "" if self.has_capacity(ask, card, beside) else "capacity"

    def labels(self, one):
        claim, number, place, *_ = one
        several = len(self.world.claims[claim].requests[number]) > 1
        return {f"r{number}"} | ({f"r{number}/a{place}"} if several else set())

    def is_taken(self, claim, ask, card, beside):
        rivals = [] if self.is_shared(card) else beside
        if ask.admin:
            return any(one[0] == claim for one in rivals)
        return bool(rivals) or card.whole or (bool(card.parts) and not self.features.sharing)

    def is_shared(self, card):
        return self.features.sharing and card.shared

    def counters_left(self, held):
        left = dict(COUNTERS)
        for card in self.usable("p"):
            times = sum(one[4] is card for one in held)
            if self.is_shared(card):
                paid = card.parts if self.features.modern else any(card.parts)
                times = min(times, 0 if paid else 1)
            times += bool(card.whole or card.parts)
            for name in left:
                left[name] -= times * getattr(card, name)
        return left

    def has_capacity(self, ask, card, beside):
        gone = sum(part or 0 for part in card.parts)
        if not self.features.sharing:
            return True
        if not self.is_shared(card) and ask.memory is None:
            return not gone
        amount = self.amount(ask, card)
        if self.is_shared(card):
            gone += sum(self.amount(one[3], card) for one in beside)
        return amount is not None and gone + amount <= (card.memory or 0)

    def amount(self, ask, card):
        """How much memory is taken: None if it cannot be had, 0 where there is none."""
        if card.memory is None:
            return None if ask.memory is not None else 0
        wanted = card.memory if ask.memory is None else ask.memory
        return wanted if wanted <= card.memory else None

    def count(self, ask):
        return len(self.everything(ask)) if ask.count is None else ask.count

    def everything(self, ask):
        """What "all" means: in 1.37 what has the capacity, in 1.36 what has it left."""
        if not self.features.sharing:
            return self.selected
        if self.features.modern:
            return [card for card in self.selected if self.amount(ask, card) is not None]
        return [card for card in self.selected if self.has_capacity(ask, card, [])]


# -- both -----------------------------------------------------------------------------------------


def modelled(world):
    try:
        found = Model(world).run()
    except (Error, Doubt) as problem:
        return type(problem)
    return found and [(claim, number, place, card.name) for claim, number, place, _, card in found]


def searched(world):
    objects, table = ClusterObjects(), NodeTable()
    table.add_node(make_node("a").build())
    held = [claim for card in world.cards for claim in card.held()]
    for builder in (make_device_class("gpu"), *world.slices(), *held):
        objects.put(builder.build())
    pools = Pools(objects, world.features)
    books = ClaimBooks(objects, sharing=world.features.sharing)
    pools.refresh()
    books.refresh()
    claims = [claim.build(f"c{number}") for number, claim in enumerate(world.claims)]
    wanted = [
        allocator.ClaimRequests(claim, alternatives(claim, objects.device_classes, pools))
        for claim in claims
    ]
    node = table.info(0)
    try:
        search = allocator.Search(wanted, pools.on_node(node), node, books, world.features, 10**6)
        found = search.run()
    except AllocationError:
        return Error
    except allocator.InvalidPools:
        return Doubt
    return found and [
        (one.claim, one.request, one.alternative.index, one.offer.device.name) for one in found
    ]


@pytest.mark.parametrize("modern", [True, False], ids=["1.37", "1.36"])
@pytest.mark.parametrize("seed", range(5))
def test_the_search_finds_what_the_model_finds(seed, modern, monkeypatch):
    monkeypatch.setattr(allocator, "MAX_RESULTS", MOST)
    rng = random.Random(seed)
    seen = set()
    for _ in range(250):
        world = World.draw(rng, modern=modern)
        answer = searched(world)
        assert modelled(world) == answer, world
        seen.add(answer if answer in (Error, Doubt) else bool(answer))

    assert {True, False, Error, Doubt} == seen
