"""Why a URL is listed, or not."""
