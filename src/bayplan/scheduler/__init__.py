"""The live scheduler: feeds the engine from informers and carries its decisions out."""
