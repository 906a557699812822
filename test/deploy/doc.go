// Package deploy has the tests of the folders deploy/helm, deploy/kubernetes and deploy/keda. The tests with the tag installed need helm
// and kubeconform in .bin, which `make deploy-tools` installs. kubeconform reads the schemas in the folder schemas, which
// scripts/kubeschemas makes.
package deploy
