from made_up.fixtures import foretrain, made_up_papers

__all__ = ["foretrain", "made_up_papers"]
