# The survey: networks that packages can export, run beside the peers, as a page.  It takes hours, can be interrupted,
# and goes on where it was.

SURVEY ?= build/survey
SURVEY_THREADS ?= 1,2
SURVEY_BATCH ?= 1
SURVEY_NETWORKS ?=
# Debian's PyTorch, and of PyPI the last transformers that takes it, and an onnx and an onnxruntime that take its
# NumPy.
SURVEY_ENV ?= $(B)/survey-env
SURVEY_PACKAGES ?= transformers==4.40.2 onnx==1.16.2 onnxruntime==1.18.1

.PHONY: survey survey-networks
$(SURVEY_ENV)/installed:
	@/usr/bin/python3 -c "import torchvision" 2>/dev/null || \
	    { echo "survey: needs torchvision: apt-get install python3-torchvision" >&2; exit 4; }
	@/usr/bin/python3 -m venv --system-site-packages $(SURVEY_ENV)
	@$(SURVEY_ENV)/bin/pip install -q $(SURVEY_PACKAGES)
	@touch $@

survey-networks: $(SURVEY_ENV)/installed ## export the survey's networks into SURVEY (Debian's python3-torchvision, PyPI; 12 GB)
	@HF_HUB_OFFLINE=1 $(SURVEY_ENV)/bin/python bench/survey/export.py $(SURVEY) $(SURVEY_NETWORKS)

survey: $(B)/moire survey-networks peers ## export networks, compile them, run them beside the peers: docs/results/survey.md
	@bench/survey/compile $(B)/moire $(SURVEY) $(SURVEY_NETWORKS)
	@VENV=$(VENV) $(B)/moire bench survey $(if $(SURVEY_NETWORKS),$(SURVEY_NETWORKS:%=$(SURVEY)/%),$(SURVEY)) \
	    --threads $(SURVEY_THREADS) --batch $(SURVEY_BATCH) --peers all --output $(SURVEY)/survey.json --resume
	@python3 bench/survey/page.py $(SURVEY)/survey.json >docs/results/survey.md
