"""Jobs as text, signed: into an envelope's body and back."""

from __future__ import annotations

from .codec import Reference, References
from .references import ModelReferences
from .serializer import Description, Serializer
from .signing import Signer, Signing, Unsigned

__all__ = [
    "Description",
    "ModelReferences",
    "Reference",
    "References",
    "Serializer",
    "Signer",
    "Signing",
    "Unsigned",
]
