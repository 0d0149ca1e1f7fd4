"""Names the family of a failure that no page of the catalogue describes.

A family is a broad kind of failure such as `shape_mismatch` or `config_error`; the list is `CRASH_FAMILIES` in
`labbook.model.symptom`. Start with `message_family`, which combines the tables of this package: classes of
exceptions, error codes of the system and of CUDA, the source file that raised, and the wording of the message.

A family found here is never more certain than "likely". A message that fits no table stays unknown, because a wrong
family costs a reader more time than no answer. New knowledge about one particular error belongs on a page in
`labbook/symptoms/`, not here.
"""
