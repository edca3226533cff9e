"""From a recording that somebody names to a profile, an annotation or an archive."""
