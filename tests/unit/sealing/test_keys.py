"""Master keys from the environment: clear refusals that show no key."""

from base64 import b64encode
from datetime import date
from pathlib import Path

import pytest

from mainspring.errors import InvalidError
from mainspring.secrets.keys import FILE_VARIABLE, VARIABLE, new_key, parse_keys, read_master_keys

ONE, TWO = b64encode(bytes(32)).decode(), b64encode(b"k" * 32).decode()


def test_the_first_is_current_and_all_open() -> None:
    keys = read_master_keys({VARIABLE: f"b:{TWO},a:{ONE}"})
    assert keys is not None
    assert (keys.current, keys.key("a"), keys.key("b")) == ("b", bytes(32), b"k" * 32)


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"b:{TWO}\n\na:{ONE}\n")
    keys = read_master_keys({FILE_VARIABLE: str(path)})
    assert repr(keys) == "<MasterKeys b, a>"


def test_nothing_said() -> None:
    assert read_master_keys({}) is None


def test_a_new_key_is_one() -> None:
    text = new_key(date(2030, 1, 31))
    assert text.startswith("2030-01-31-")
    assert parse_keys("keys", text).current == text.partition(":")[0]
    assert new_key(date(2030, 1, 31)) != text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no key"),
        (ONE, "key 1: expected ID:BASE64"),
        (f"a:{ONE},b c:{TWO}", "key 2: expected ID:BASE64"),
        (f"a:{ONE},a:{TWO}", "two keys with the id 'a'"),
        ("a:c2VjcmV0", "the key 'a' has 6 bytes; 32 are needed"),
        ("a:c2Vj!cmV0", "the key 'a' is not base64"),
    ],
)
def test_what_is_no_key(text: str, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem) as refused:
        read_master_keys({VARIABLE: text})
    assert refused.value.field == VARIABLE
    assert "c2V" not in str(refused.value)
    assert ONE not in str(refused.value)


def test_both_variables(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="both set"):
        read_master_keys({VARIABLE: f"a:{ONE}", FILE_VARIABLE: str(tmp_path)})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"cannot read .*: No such file"):
        read_master_keys({FILE_VARIABLE: str(tmp_path / "no")})
