"""The recording of a run as frozen data: records, facts about the run, the profile and its storage."""
