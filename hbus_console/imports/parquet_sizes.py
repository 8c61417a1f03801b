"""How many bytes rows of Arrow have once each is written out, told without writing one out."""

from __future__ import annotations

from typing import Any

#: What a value takes at least: a digit and a comma.
_LEAST = 2
#: Quotes, colon and comma around a name.
_AROUND = 4


def row_sizes(batch: Any) -> list[int]:
    """About how many bytes each row of a record batch has, its names as well.

    A value that stands once in memory and a thousand times in the rows counts a thousand times.
    """
    # 60 MB, for files of one kind.
    from pyarrow import compute

    sizes = _equal(batch.num_rows, _named(batch.schema))
    for column in batch.columns:
        sizes = compute.add(sizes, _sizes(column))
    return [int(size) for size in sizes.to_pylist()]


def _sizes(array: Any) -> Any:
    """Likewise for each value of an array."""
    # 60 MB, for files of one kind.
    import pyarrow
    from pyarrow import compute, types

    kind = array.type
    if isinstance(array, pyarrow.ExtensionArray):
        return _sizes(array.storage)
    if types.is_dictionary(kind):
        return _filled(_sizes(array.dictionary).take(array.indices))
    if types.is_struct(kind):
        sizes = _equal(len(array), _named(kind))
        for place in range(kind.num_fields):
            sizes = compute.add(sizes, _sizes(array.field(place)))
        return sizes
    if (ends := _ends(array)) is not None:
        return _between(array.values, ends)
    if _is_written_out(kind):
        return compute.add(_filled(compute.binary_length(array)), _LEAST)
    return _equal(len(array), 1 if types.is_null(kind) else kind.bit_width // 8)


def _ends(array: Any) -> Any:
    """Where the values of each list begin and end, if these are lists."""
    # 60 MB, for files of one kind.
    import pyarrow
    from pyarrow import compute, types

    kind = array.type
    if types.is_fixed_size_list(kind):
        places = pyarrow.array(range(array.offset, array.offset + len(array) + 1), pyarrow.int64())
        return compute.multiply(places, kind.list_size)
    return array.offsets if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind) else None


def _is_written_out(kind: Any) -> bool:
    # 60 MB, for files of one kind.
    from pyarrow import types

    sorts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(it_is(kind) for it_is in (*sorts, types.is_string_view, types.is_binary_view))


def _between(values: Any, ends: Any) -> Any:
    """The sums of the values from each of ``ends`` to the next."""
    # 60 MB, for files of one kind.
    import pyarrow
    from pyarrow import compute

    first = pyarrow.array([0], pyarrow.int64())
    sums = pyarrow.concat_arrays([first, compute.cumulative_sum(_sizes(values))]).take(ends)
    return compute.add(compute.subtract(sums[1:], sums[:-1]), _LEAST)


def _filled(sizes: Any) -> Any:
    # 60 MB, for files of one kind.
    import pyarrow
    from pyarrow import compute

    return compute.fill_null(sizes.cast(pyarrow.int64()), _LEAST)


def _equal(count: int, size: int) -> Any:
    # 60 MB, for files of one kind.
    import pyarrow

    return pyarrow.repeat(pyarrow.scalar(max(_LEAST, size), pyarrow.int64()), count)


def _named(fields: Any) -> int:
    return sum(len(field.name) + _AROUND for field in fields)
