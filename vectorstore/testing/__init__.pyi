"""The names of ``tellback.vectorstore.testing``; the package imports each when it is first used."""

from .filter_contract import BAD_FILTERS as BAD_FILTERS
from .filter_contract import FILTER_CASES as FILTER_CASES
from .filter_contract import FilterCase as FilterCase
from .filter_contract import FilterContract as FilterContract
from .model import ModelStore as ModelStore
from .store_contract import LifecycleContract as LifecycleContract
from .store_contract import VectorStoreContract as VectorStoreContract
from .suite import StoreContract as StoreContract
from .wrapper_contract import WrapperContract as WrapperContract
