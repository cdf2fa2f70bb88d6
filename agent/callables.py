"""Doers made of a model: summaries of windows, hooks of recall, a judge of replacements, a writer of lines."""

from tellback.agent.context.line_writer import LineWriter
from tellback.agent.context.recall_hooks import recall_hooks
from tellback.agent.context.replacement_judge import replacement_judge
from tellback.agent.context.section_writer import SectionWriter
from tellback.agent.context.summarizer import summarizer

__all__ = ["LineWriter", "SectionWriter", "recall_hooks", "replacement_judge", "summarizer"]
