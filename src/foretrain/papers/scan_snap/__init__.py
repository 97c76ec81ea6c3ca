"""Scan and Snap: how a 1-layer transformer's attention scans tokens, then freezes."""

from foretrain.papers import Paper, Symbol

PAPER = Paper(
    name="scan_snap",
    short="Scan and Snap",
    title="Scan and Snap: Understanding Training Dynamics and Token Composition in 1-layer Transformer",
    citation="Yuandong Tian, Yiping Wang, Beidi Chen, Simon Du. NeurIPS 2023.",
    symbols=(
        Symbol("M", "vocab", "", "number of tokens"),
        Symbol("K", "classes", "", "number of next tokens (sequence classes)"),
        Symbol("T", "length", "", "length of a sequence, its query included"),
        Symbol("P(l|n)", "probabilities", "[class, vocab]", "context token l given next token n"),
        Symbol("ψ", "query", "[class]", "query token of each class"),
        Symbol("Y", "Y", "[vocab, vocab]", "decoder: row = context token, column = next token"),
        Symbol("Z", "Z", "[vocab, vocab]", "attention logits: row = query, column = context token"),
        Symbol("c_n", "attention", "[class, vocab]", "attention per token, sums to 1"),
        Symbol("f_n", "features", "[class, vocab]", "attention scaled to length 1"),
        Symbol("η_Y, η_Z", "eta_y, eta_z", "", "learning rates of decoder and attention"),
        Symbol("h, h*", "decoder_growth", "[time]", "growth of the decoder, continuous and per step"),
        Symbol("γ", "speed", "[time]", "speed control coefficient"),
        Symbol("B_n", "attention_growth", "[time]", "exponent of the growth of distinct tokens"),
        Symbol("χ", "growth_factor", "[time]", "growth factor of a distinct token"),
        Symbol("ω1", "omega1", "", "offset of the second zero of Lemma 8"),
        Symbol("t0", "snap_time", "", "time at which attention snaps"),
    ),
)
