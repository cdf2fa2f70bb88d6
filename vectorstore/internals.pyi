"""The names of ``tellback.vectorstore.internals``; the module imports each when it is first used."""

from .call_hints import with_hints as with_hints
from .entry_counts import entry_counts as entry_counts
from .filters import filter_fields as filter_fields
from .filters import filter_tree as filter_tree
from .index.bm25 import BM25_B as BM25_B
from .index.bm25 import BM25_K1 as BM25_K1
from .index.bm25 import idf as idf
from .index.bm25 import idf_array as idf_array
from .index.growable_array import GrowableArray as GrowableArray
from .index.growable_array import distinct_counts as distinct_counts
from .index.growable_array import sorted_distinct as sorted_distinct
from .json_values import check_text as check_text
from .json_values import plain_json as plain_json
from .ordered_scan import OrderedStore as OrderedStore
from .ordered_scan import ScanPosition as ScanPosition
from .outline_scan import scan_outlines as scan_outlines
from .text_scan import scan_holding as scan_holding
from .wrapper_store import check_overrides as check_overrides
