"""The run-time type checker of the tests: every annotation of foretrain is enforced; an int is a float."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
