"""What will fine-tuning do to this model on these texts?

A linear probe is fitted first and put into the model's head. Around that point the network is linearised, and the real
optimizer is run on the linearised network: with its own batches, rates, schedule and weight decay. One pass over the
data is enough; after it, a setting takes about a second.
"""
