"""Whether another embedder or setting would help somebody's own memory: asked by questions made from it."""
