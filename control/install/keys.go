// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import "time"

// Keys is a certificate that was made with its key for somebody who cannot enrol
// PEM blocks, shown once.
type Keys struct {
	Certificate, Key, CA string
	EndsAt               time.Time
}

// KeyFormats are the formats that can print keys: those of a cluster, where the
// Secret that a collector keeps its certificate in can be made beforehand. For a
// machine, ikhnos enroll fills a folder on any other that reaches the server.
func KeyFormats() []Format { return []Format{Shell, HelmValues, Manifests, ArgoCD, Flux} }

// secretBlocks put the operator's secrets into its cluster.
func (o Operator) secretBlocks() []Block {
	blocks := secretObjects(inOperatorCluster, o.secrets())
	id := o.Operator.ID
	blocks = append(blocks, o.ReceiverKeys.block(inOperatorCluster, "receiver", id+"-receiver-tls", id)...)
	return append(blocks, o.ExportKeys.block(inOperatorCluster, "export", id+"-export-tls", id)...)
}

// secretBlocks put the sender's secrets into its cluster.
func (s Sender) secretBlocks() []Block {
	blocks := secretObjects(s.inCluster(), s.secrets())
	return append(blocks, s.Keys.block(s.inCluster(), "export", s.name()+"-tls", s.name())...)
}

// block makes the Secret that holds a certificate, where a collector that renews keeps
// it, too. It is applied on the server's side: no annotation repeats the key, and
// manifests without data that are applied later take nothing out.
func (k *Keys) block(where, label, name, instance string) []Block {
	if k == nil {
		return nil
	}
	secret := object{
		"apiVersion": "v1", "kind": "Secret", "metadata": metadata(name, instance), "type": "Opaque",
		"data": object{"tls.crt": []byte(k.Certificate), "tls.key": []byte(k.Key), "ca.crt": []byte(k.CA)},
	}
	apply := ShellWords("kubectl", "apply", "--server-side", "--force-conflicts", "--field-manager=ikhnos-keys", "--filename=-")
	title := "its " + label + " certificate with its key (shown once, good until " + k.EndsAt.UTC().Format(time.RFC3339) + ")"
	return []Block{{where, title, label + "-keys.sh", hereDoc(apply, yamlText(secret), "")}}
}
