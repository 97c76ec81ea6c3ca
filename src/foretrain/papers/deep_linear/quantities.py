"""What the variables and axes of deep linear networks' claims are called."""

from foretrain.ledger.quantities import BASE, Quantity

QUANTITIES = BASE.extended(
    Quantity("mode", "the rank of the mode", "mode", role="axis"),
    Quantity("strength", "the strength of the mode", "s", role="axis"),
    Quantity("layers", "the number of layers", "layers", role="axis"),
    Quantity("learned", "how much of a mode is learned"),
    Quantity("share", "the learned share of a mode"),
    Quantity("start", "the logarithm of the start that counts"),
    Quantity("half", "the time until half is learned"),
    Quantity("mean", "the mean time until half is learned"),
    Quantity("balance", "the difference of the two layers"),
    Quantity("error", "the distance from the limit"),
    Quantity("steps", "the steps with the best learning rate"),
    Quantity("growth", "how many times as many steps the deepest network takes"),
)
