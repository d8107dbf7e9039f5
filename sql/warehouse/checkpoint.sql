CHECKPOINT {{ zone }}
