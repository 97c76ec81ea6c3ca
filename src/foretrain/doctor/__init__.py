"""Does foretrain give the right numbers on this hardware, and what does watching a training cost there?"""

from foretrain.doctor.cost import Cost, Workload
from foretrain.doctor.examination import Examination, examine

__all__ = ["Cost", "Examination", "Workload", "examine"]
