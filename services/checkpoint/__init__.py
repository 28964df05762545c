"""A released coordinator as a folder: parameters, a description that is checked field by field, a model card."""
