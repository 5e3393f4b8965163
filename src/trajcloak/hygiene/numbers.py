"""The numbers that stand in the values of an attribute."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class Numbers(NamedTuple):
    """The numbers in some texts: all the digits that stand together.

    Attributes
    ----------
    spelt : pyarrow.Array
        The distinct numbers, as they are spelt.
    first : (texts + 1,) int64
        Where in ``number`` those of each text start.
    number : int64
        Positions in ``spelt``.
    """

    spelt: pa.Array
    first: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]


def list_numbers(texts: pa.Array, num_digits: npt.NDArray[np.int64]) -> Numbers:
    """List the numbers in some texts, of as many digits as ids have.

    Parameters
    ----------
    texts
    num_digits
        How many ids are numbers of so many digits.
    """
    groups = pc.split_pattern_regex(texts, "[^0-9]+")
    spelt, text = groups.flatten(), pc.list_parent_indices(groups).to_numpy()
    size = pc.utf8_length(spelt).to_numpy()
    is_wanted = (np.append(num_digits, 0)[np.minimum(size, len(num_digits))] > 0) & (size > 0)
    encoded = spelt.filter(pa.array(is_wanted)).dictionary_encode()
    return Numbers(
        encoded.dictionary,
        np.searchsorted(text[is_wanted], np.arange(len(texts) + 1)),
        encoded.indices.to_numpy().astype(np.int64),
    )
