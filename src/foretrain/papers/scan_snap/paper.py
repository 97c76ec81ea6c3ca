"""Scan and Snap: title, citation, letters, and the story in short."""

from foretrain.papers import Paper, Story, Symbol

PAPER = Paper(
    name="scan_snap",
    short="Scan and Snap",
    position=1,
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
        Symbol("t0", "snap_time", "", "time at which attention snaps, in steps of one sample or of a batch"),
        Symbol("ρ", "overlap", "", "overlap f_n·f_n' of two classes"),
        Symbol("α_nn'", "confusion_drive", "[time]", "probability of taking class n for class n'"),
        Symbol("u", "growth", "", "logit of the right next token, Mh, about ln M at the snap"),
    ),
    story=Story(
        says="A one-layer transformer without positions predicts the next token. Its attention scans: tokens that "
        "occur with one next token only gain attention, common ones lose it, frequent ones win. Then it snaps: once "
        "the decoder has learned, attention hardly moves. The learning rates of decoder and attention set the time "
        "and the sparsity.",
        holds="The gradients, the decoder's growth and its closed form, and who gains and who loses hold in training. "
        "Attention does snap near the predicted time, at .5 to 1.4 times it, and earlier with a larger decoder rate. "
        "All 36 published cells of figure 6 are met.",
        wrong="How far attention moves. Theorem 4 loses a constant of integration and two factors K. Above all, Lemma "
        "3 trains the decoder by another gradient than the loss's, and attention is moved by exactly what was "
        "changed.",
        training="At the rates of figure 3 the printed growth factor is 34; training gives 1.007. The drive on "
        "attention is how often the decoder takes one class for another, and the decoder's memory holds attention "
        "back. A flow with these two effects predicts training on long sequences to 10 %, and to 3 % if steps are "
        "short.",
        picture="scan_snap/fig3",
    ),
)
