"""Another machine, over ssh: the recorder is sent there, the recording and its names come back."""
