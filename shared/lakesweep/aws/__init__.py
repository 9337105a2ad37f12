"""The AWS edge: all access to AWS services other than S3, and the settings of a deployment."""
