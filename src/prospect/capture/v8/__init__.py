"""Functions of V8, as Node runs them: found in files, in frames and in memory."""
