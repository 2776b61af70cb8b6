"""What is said of malformed JSON is what Go says, where it is known."""

import pytest

from bayplan.api import json
from bayplan.errors import DecodeError


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'{"a":1} x', "invalid character 'x' after top-level value"),
        (b"{a: 1}", "invalid character 'a' looking for beginning of object key string"),
        (b"[}", "invalid character '}' looking for beginning of value"),
    ],
    ids=["empty", "cut", "more", "no key", "no value"],
)
def test_malformed_json_is_told_in_gos_words(body, text):
    with pytest.raises(DecodeError) as told:
        json.load(body)

    assert text == str(told.value)
