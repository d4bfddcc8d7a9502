"""From a stream of the engine to an answer: read, judged when it is enough, fitted into the document, found again."""
