"""Pieces of logs: what was written is read again, and what is torn or foreign spoils nothing."""

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.segments import (
    END,
    ERR,
    MAX_SEGMENT,
    OUT,
    STREAMS,
    Segment,
    encode_segment,
    make_piece,
    read_piece,
    split,
)

_segments = st.lists(
    st.builds(Segment, st.integers(0, 255), st.integers(0, 2**63), st.binary(max_size=50)),
    max_size=8,
)


def _piece(segments: list[Segment]) -> bytes:
    return make_piece(encode_segment(each.stream, each.at, each.data) for each in segments)


def _read(piece: bytes) -> tuple[list[Segment], bool]:
    """Its segments, and whether that was all."""
    found = list(read_piece(piece))
    whole = None not in found
    return [segment for segment in found if segment is not None], whole


@given(_segments)
def test_what_was_written_is_read(segments: list[Segment]) -> None:
    assert list(read_piece(_piece(segments))) == segments


@given(_segments, st.data())
def test_a_torn_piece_gives_its_whole_segments(segments: list[Segment], data: st.DataObject) -> None:
    piece = _piece(segments)
    torn = piece[: data.draw(st.integers(0, len(piece) - 1))]
    found, whole = _read(torn)
    assert found == segments[: len(found)]
    # Where it is torn between two segments nobody can tell: that is what the segment `END` is for.
    assert not whole or torn == _piece(found)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_no_piece_and_no_error(data: bytes) -> None:
    found, whole = _read(data)
    assert not whole or _piece(found) == data


def test_a_size_beyond_the_piece_is_not_believed() -> None:
    piece = make_piece([encode_segment(OUT, 1, b"one\n")]) + b"\x01" + b"\xff" * 12 + b"two\n"
    assert list(read_piece(piece)) == [Segment(OUT, 1, b"one\n"), None]


@given(st.text(max_size=300), st.integers(4, 40))
def test_parts_are_small_and_together_the_whole(text: str, most: int) -> None:
    data = text.encode()
    parts = list(split(data, most))
    assert b"".join(parts) == data
    assert all(0 < len(part) <= most for part in parts)
    assert "".join(part.decode() for part in parts) == text  # no character is torn


def test_parts_end_with_lines_where_they_can() -> None:
    data = b"".join(b"%07d\n" % number for number in range(20_000))
    parts = list(split(data))
    assert len(parts) == 3
    assert all(part.endswith(b"\n") for part in parts)
    assert max(map(len, parts)) == MAX_SEGMENT


def test_bytes_that_are_no_text_are_split_too() -> None:
    data = b"\x80" * 100
    assert b"".join(split(data, 7)) == data


def test_every_stream_but_the_end_has_a_name() -> None:
    assert STREAMS[OUT] == "stdout"
    assert STREAMS[ERR] == "stderr"
    assert END not in STREAMS
