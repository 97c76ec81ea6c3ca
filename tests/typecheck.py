"""The run-time type checker of the tests: every annotation of foretrain is enforced; an int is a float."""

from beartype import BeartypeConf, FrozenDict, beartype
from numpy.typing import ArrayLike

# numpy's ArrayLike is a union of protocols that takes longer to check than most formulas take to compute.
check = beartype(conf=BeartypeConf(is_pep484_tower=True, hint_overrides=FrozenDict({ArrayLike: object})))
