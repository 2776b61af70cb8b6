"""Sums that are kept are the sums of what there is, whatever is written in between."""

from hypothesis import given
from hypothesis import strategies as st

from bayplan.apiserver.admission.tally import Tally

OBJECTS = st.dictionaries(
    st.sampled_from("abcd"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 5))
)


@given(st.lists(OBJECTS))
def test_sums_follow_a_collection(states):
    looked: list[str] = []
    tally, revision, before = Tally(lambda obj: looked.append(obj["key"]) or obj["uses"]), 0, {}
    for state in states:
        looked.clear()
        now = {}
        for key, uses in state.items():
            revision += 1
            now[key] = before[key] if before.get(key, (0, None))[1] == uses else (revision, uses)
        for key, (version, uses) in now.items():
            if not tally.knows(key, version):
                tally.see(key, version, {"key": key, "uses": uses})
        tally.keep(list(now))

        names = {name for uses in state.values() for name in uses}
        sums = {name: sum(uses.get(name, 0) for uses in state.values()) for name in names}
        assert {name: amount for name, amount in sums.items() if amount} == tally.totals
        assert {key for key in now if now[key] != before.get(key)} == set(looked)
        before = now
