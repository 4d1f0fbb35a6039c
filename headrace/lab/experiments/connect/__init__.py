"""headrace on a server of Spark Connect: Beam's runner suite, NEXMark, kills, epochs."""
