# The survey: networks that packages can export, run beside the peers, as a page.  It takes hours, can be interrupted,
# and goes on where it was.

SURVEY ?= build/survey
SURVEY_THREADS ?= 1,2
SURVEY_BATCH ?= 1
SURVEY_NETWORKS ?=

.PHONY: survey survey-networks
survey-networks: ## export the survey's networks into SURVEY (Debian's python3-torchvision; 5 GB)
	@/usr/bin/python3 -c "import torchvision" 2>/dev/null || \
	    { echo "survey: needs torchvision: apt-get install python3-torchvision" >&2; exit 4; }
	@/usr/bin/python3 bench/survey/export.py $(SURVEY) $(SURVEY_NETWORKS)

survey: $(B)/moire survey-networks peers ## export networks, compile them, run them beside the peers: docs/results/survey.md
	@bench/survey/compile $(B)/moire $(SURVEY) $(SURVEY_NETWORKS)
	@VENV=$(VENV) $(B)/moire bench survey $(if $(SURVEY_NETWORKS),$(SURVEY_NETWORKS:%=$(SURVEY)/%),$(SURVEY)) \
	    --threads $(SURVEY_THREADS) --batch $(SURVEY_BATCH) --peers all --output $(SURVEY)/survey.json --resume
	@python3 bench/survey/page.py $(SURVEY)/survey.json >docs/results/survey.md
