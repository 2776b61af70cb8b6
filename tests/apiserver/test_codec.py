"""What is stored of an object."""

import tracemalloc

from bayplan.apiserver.codec import encode_value


def test_a_stored_value_takes_no_more_memory_than_its_bytes():
    obj = {"metadata": {"name": "a"}, "data": {f"key-{n}": "x" * 20 for n in range(40)}}
    encode_value(obj)
    tracemalloc.start()
    try:
        kept = [encode_value(obj) for _ in range(200)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < 1.05 * sum(len(value) + 40 for value in kept)
