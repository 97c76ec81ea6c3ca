from contracts.everywhere import problems


def test_every_place_that_fails_is_named_with_what_is_wrong() -> None:
    def even(number: int) -> None:
        assert number % 2 == 0, f"{number} is odd"

    assert problems({"one": 1, "two": 2, "three": 3}, even) == {
        "one": "1 is odd\nassert (1 % 2) == 0",
        "three": "3 is odd\nassert (3 % 2) == 0",
    }
