"""The AWS edge, S3 aside: everything that speaks to another AWS service, and the settings of a deployment."""
