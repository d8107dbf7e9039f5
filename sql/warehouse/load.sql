LOAD {{ extension }}
