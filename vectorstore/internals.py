"""The internal face of the vector store: what the memory layer needs of index and scans, and users do not.

It may change without notice.
"""

from vectorstore.index.bm25 import BM25_B, BM25_K1, idf, idf_array
from vectorstore.index.growable_array import GrowableArray, distinct_counts, sorted_distinct
from vectorstore.ordered_scan import OrderedStore, ScanPosition
from vectorstore.text_scan import scan_holding

__all__ = [
    "BM25_B",
    "BM25_K1",
    "GrowableArray",
    "OrderedStore",
    "ScanPosition",
    "distinct_counts",
    "idf",
    "idf_array",
    "scan_holding",
    "sorted_distinct",
]
