"""The language of queries: from text to a tree of conditions that stores translate. Pure: values in, values out.

fields       the table of fields;  tree: conditions;  normal: their normal form
parse        from text;  values, moments, words: its parts
check        for trees that come over the wire
evaluate     decides a condition for a job or a line: the oracle of both stores
complete     completion;  format: back to text
"""
