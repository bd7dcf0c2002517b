"""What a comparison found: tables for the terminal and for machines, and one page for people."""

from credax.report.labels import distinguish as distinguish
from credax.report.latex import latex as latex
from credax.report.latex import write_latex as write_latex
from credax.report.page import page as page
from credax.report.page import write_html as write_html
from credax.report.result import Comparison as Comparison
from credax.report.result import Facts as Facts
from credax.report.result import Result as Result
from credax.report.table import Cell as Cell
from credax.report.table import Column as Column
from credax.report.table import Table as Table
from credax.report.table import print_rich as print_rich
from credax.report.table import summarise as summarise
from credax.report.table import write_csv as write_csv
from credax.report.table import write_json as write_json
