"""Ids of users: of one type, in ascending order."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from trajcloak.errors import InputError
from trajcloak.kernels.sort import sort_words
from trajcloak.log.request_values import to_plain_numbers


def mixed_ids(name: str | None) -> InputError:
    """Build the error for user ids of several types."""
    return InputError(
        f"column '{name}' holds numbers in one file and text in another; expected one type; "
        f"convert the user ids"
    )


def sort_ids(ids: pa.Array) -> npt.NDArray[np.int64]:
    """List the positions of distinct ids in ascending order of the ids."""
    if not pa.types.is_integer(ids.type):
        order: npt.NDArray[np.int64] = pc.sort_indices(ids).to_numpy().astype(np.int64)
        return order
    # With the sign bit flipped, signed numbers sort like unsigned words.
    words = ids.to_numpy().view(np.uint64) ^ np.uint64(1 << 63)
    # Users fit int32, for which the kernel is compiled in any case.
    number = np.arange(len(ids), dtype=np.int32)
    sort_words(words, number, 0, len(ids), np.empty_like(words), np.empty_like(number))
    return number.astype(np.int64)


def to_integers_if_plain(ids: pa.Array) -> pa.Array:
    """Turn ids into integers if all are whole numbers in plain notation."""
    numbers = to_plain_numbers(ids)
    return numbers if pa.types.is_integer(numbers.type) else ids


@njit(cache=True, nogil=True)
def renumber(user, rank):  # type: ignore[no-untyped-def]
    """Replace each user number by ``rank[number]``, in place."""
    for i in range(len(user)):
        user[i] = rank[user[i]]
